//go:build kernel

package kernel

import "testing"

// TestDifferentialCommandLine: flags, their spellings, and mistakes.
func TestDifferentialCommandLine(t *testing.T) { duel(t, commandLine) }

// everyCommand is for loops in scripts.
const everyCommand = "checkpoint create delete events exec features kill list pause ps restore resume run spec start state update"

// moreFlags and moreCommands are what sage lists beyond runc.
var (
	moreFlags    = difference{`^> +--config value `, "sage has a host configuration"}
	moreCommands = difference{`^> +(--config value|attest|check|metrics|policy|setup)  `, "sage has a host configuration, and commands that show what comes of it and what is counted"}
)

var commandLine = []twin{
	{name: "version", script: `g --version; g -v; g --version list; g -version`},
	{name: "help", script: `
for a in --help -h help h; do $RT $a | sed -n '/^COMMANDS/,$p' | sort; done
$RT | sed -n '/^COMMANDS/,$p' | sort
$RT help >$W/1; $RT h >$W/2; $RT >$W/3; cmp $W/1 $W/2; cmp $W/1 $W/3`, differ: []difference{moreCommands}},
	{name: "help of a command", script: `
for c in ` + everyCommand + `; do for a in "$c --help" "$c -h" "help $c"; do
	echo "== $a"
	$RT --root $ROOT $a >$W/o 2>$W/e; echo "exit $?"; sed -n 1,2p $W/o; sed -n '/^OPTIONS/,$p' $W/o | grep -o '^   --*.*  [a-z]' | sort; cat $W/e
done; done`},
	{name: "unknown", script: `
g nothing; g help nothing; g nothing --help; g --nothing; g --nothing list; g -x; g list --nothing; g help list nothing; g ''
for c in ` + everyCommand + `; do
	echo "== $c"; $RT --root $ROOT $c --nothing a b >$W/o 2>$W/e; echo "exit $?"; sed -n 1,4p $W/o; cat $W/e
	$RT --root $ROOT $c -Z >$W/o 2>$W/e; echo "exit $?"; sed -n 1,4p $W/o; cat $W/e
done`, differ: []difference{
		moreFlags,
		{`msg="No help topic for .nothing.(\\n)?"`, "a log record does not end in a newline"},
	}},
	{name: "number of arguments", script: `
for c in ` + everyCommand + `; do for a in '' 'a b' 'a b c' '-- -a' '-'; do
	echo "== $c $a"
	$RT --root $ROOT $c $a </dev/null >$W/o 2>$W/e; echo "exit $?"; sed -n 1,4p $W/o | cut -c 1-200; cat $W/e; rm -f config.json
done; done`},
	{name: "empty id", script: `
for c in ` + everyCommand + `; do
	echo "== $c"
	$RT --root $ROOT $c '' >$W/o 2>$W/e; echo "exit $?"; sed -n 1,4p $W/o; cat $W/e
	[ $c = spec ] || { $RT --root $ROOT $c -- '' >$W/o 2>$W/e; echo "exit $?"; sed -n 1,4p $W/o; cat $W/e; }
done`},
	{name: "global flags", script: `
cd $W; mkdir rel
g --root rel list; g --root=rel list; g -root rel list; g --root $W/none list; g --root '' list; g --root / list; g --root . list; g --root
cd /; g --root . list; g --root ../.. list; cd $W
g --root rel --root $W/none list; g --root $W/none --root rel list
g --log-format xml --root rel list; g --log-format '' --root rel list; g --log-format json --root $W/none list; g --log-format JSON --root rel list
g --debug=maybe list; g --debug=false --root rel list; g --debug=true --root rel list -q
g --rootless foo --root rel list; g --rootless '' --root rel list; g --rootless AUTO --root rel list; g --rootless 1 --root rel list
g --rootless=false --root rel list; g --rootless
g --rootless foo --root rel create x; g --rootless foo --root rel run -b $B x; g --rootless foo --root rel state x
g --systemd-cgroup=x list; g --systemd-cgroup --root rel list
g --log /nowhere/x --root rel list; g --log '' --root rel list; g --log / --root rel list
touch file; g --root file list; g --root file state x; g --root file delete x; g --root file delete -f x; g --root file create -b $B x
g --root $W/none state x; g --root $W/none delete -f x; g --root $W/none delete x; ls $W`, differ: []difference{
		moreFlags,
		{`^> (exit 1|err .*--rootless: strconv.ParseBool: parsing .."?foo)`, "a bad --rootless is refused by every command, not by create and run alone"},
		{`^< (exit 0|out ID  |err .*(not found|strconv.ParseBool|does not exist))`, "the same"},
	}},
	{name: "default root", script: `
mkdir xdg; XDG_RUNTIME_DIR=$W/xdg $RT list; ls xdg
XDG_RUNTIME_DIR=$W/xdg $RT --help | grep -o 'default: "/.*"'
unset HOME PATH; $RT --help | grep -o 'default: "/.*"'`, differ: []difference{
		{`^> default: "/etc/sage/config.yaml"`, "sage has a host configuration"},
	}},
	{name: "log files", script: `
umask 022
g --root $ROOT --log l1 state x; stat -c '%a %n' l1; cat l1
g --root $ROOT --log l2 --log-format json state x; cat l2
g --root $ROOT --log l2 --log-format json delete x; cat l2
g --root $ROOT --log l3 --log-format json --debug state x; jq -c 'keys, .level, .msg' l3
umask 077; g --root $ROOT --log l4 state x; stat -c '%a %n' l4
umask 0; g --root $ROOT --log l5 state x; stat -c '%a %n' l5
g --root $ROOT --log l6 --log-format json nothing; cat l6; g --root $ROOT --log l7 --log-format json state; cat l7
g --root $ROOT --log l8 --log-format json state --nothing; cat l8; g --root $ROOT --log l9 --log-format json exec x; cat l9
g --root $ROOT --log l10 --log-format json help nothing; cat l10
g --root $ROOT --log l11 --log-format json run -b $W x; jq -c 'del(.time)' l11
g --root $ROOT --log l12 --log-format json --nothing; ls l12; g --log /dev/stdout --root $ROOT state x; g --log /dev/stderr --root $ROOT state x
g --log /dev/full --root $ROOT state x; mkfifo f; (cat f >$W/fo &) ; g --log f --root $ROOT state x; await '[ -s $W/fo ]'
cat $W/fo`, differ: []difference{
		moreFlags,
		{`No help topic for 'nothing'(\\n)?`, "a log record does not end in a newline"},
		{`Failed to write to log[,:] write /dev/full`, "the wording of another release of the same logger"},
	}},
	{name: "spec", script: `
for u in 022 077 0; do umask $u; mkdir d$u; cd d$u; g spec; stat -c '%a %U' config.json; cat config.json; echo; g spec; cd ..; done
umask 022; mkdir e f; g spec -b e; g spec --bundle=f --rootless; cat f/config.json; g spec --bundle nowhere; g spec --rootless=false -b e; g spec e
g spec -b ''; ls
ln -s nowhere e2; mkdir l; ln -s target l/config.json; g spec -b l; ls l
mkdir dd; mkdir dd/config.json; g spec -b dd; g spec -b /proc; mkdir ro; chmod 500 ro; g spec -b ro >/dev/null
g spec >/dev/full`, differ: []difference{
		{`(chdir|open) (nowhere|config.json|/proc/config.json|nowhere/config.json): no such`, "the file is named by its whole path"},
		{`^(< exit 0|< target|> exit 1|> err .*File config.json exists)`, "a link is not followed, even where it points to nothing"},
	}},
	{name: "features", script: `
g features | jq -S 'del(.annotations)' ; $RT features | jq -cS '.annotations|keys'; $RT features >$W/x; tail -c 1 $W/x | od -c; head -c 200 $W/x; $RT features x >/dev/null; echo $?`, differ: []difference{
		{`^. \[.*annotation|^. \["`, "the version is sage's own, under its own annotations"},
	}},
	{name: "completion", script: `g --generate-bash-completion; g list --generate-bash-completion; g run --generate-bash-completion x`, differ: []difference{moreFlags}},
	{name: "output that cannot be written", script: `
for a in --version --help features 'create --help' 'state x' list 'list -f json' 'ps x' 'spec'; do
	echo "== $a"; $RT $a >/dev/full 2>$W/e; echo "exit $?"; cat $W/e
	$RT $a >&- 2>$W/e; echo "exit $?"; cat $W/e
	$RT $a >/dev/null 2>&-; echo "exit $?"
	$RT $a <&- >/dev/null 2>$W/e; echo "exit $?"; cat $W/e
done`},
}
