//go:build kernel

package kernel

import (
	"testing"
)

// TestDifferentialSignals: signals to the runtime itself, terminals, and standard streams that end.
func TestDifferentialSignals(t *testing.T) { duel(t, signalled) }

// trapping says which signals reach it.
const trapping = `for s in HUP INT QUIT USR1 USR2 ALRM TERM TSTP CONT WINCH PIPE URG IO TTIN TTOU; do trap "echo got $s" $s; done
echo ready; while :; do sleep 0.02; done`

const writing = `trap '' PIPE; echo one; echo two >&2; sleep 0.05; echo three; echo "status $?" >&2; cat | head -c 9; exit 4`

// badStreams starts a command with a redirection that is in its way.
const badStreams = `
FAULTS='>&- 2>&- >/dev/full <&-;>&-;2>&- </dev/zero <b <in'
printf 'some\n\0input' >in
fault() { # ARGS REDIRECTION OVER
	rm -f o e c; echo "== $1 $2"; f=$(echo "$2" | tr ';' ' ')
	eval "{ $RT --root $ROOT $1 $f; echo \$? >>c; } >o 2>e </dev/null" || :
	await "$3"; cat c; sort o | tr '\0' 0; echo; sort e
}
`

// sendAll sends what a trap can catch to $p, and then tells what came through.
const sendAll = `says ready
for s in HUP INT QUIT USR1 USR2 ALRM TERM WINCH PIPE CHLD URG IO TSTP CONT; do kill -$s $p; case $s in WINCH|CHLD|URG) sleep 0.1;; *) says "got $s";; esac; done
sort -u $W/out.$n | grep -vE 'URG|WINCH'; `

var signalled = []twin{
	{name: "run", edit: script(trapping), script: `bg run -b $B $ID; ` + sendAll + `k kill $ID KILL; ended`},
	{name: "exec", script: `k run -d -b $B $ID; bg exec $ID sh -c "$TRAPPING"; ` + sendAll + `k kill $ID KILL; ended`},
	{name: "fatal signals of exec", script: `k run -d -b $B $ID
for s in HUP INT QUIT USR1 TERM; do bg exec $ID sh -c 'echo ready; exec sleep 5'; says ready; sleep 0.05; kill -$s $p; echo $s; ended; done`},
	{name: "killed", edit: script(`echo ready; sleep 1000`), script: `bg run -b $B $ID; says ready; kill -KILL $p; ended; r state $ID; r delete $ID
r delete -f $ID; k run -d -b $B $ID; bg exec $ID sh -c 'echo ready; exec sleep 1000'; says ready; kill -KILL $p; ended
r ps -f json $ID | sed 's/[0-9][0-9]*/N/g'`},
	{name: "during create", script: `conf '.hooks.createRuntime=[{"path":"/bin/sh","args":["sh","-c","touch '$W'/hook; until [ -e '$W'/go ]; do sleep 0.01; done"]}]'
for v in create 'run -d'; do for s in HUP INT QUIT USR1 ALRM TERM PIPE WINCH; do
	rm -f $W/hook $W/go; bg $v -b $B $ID; await "[ -e $W/hook ]"; kill -$s $p; touch $W/go; wait $p 2>/dev/null; echo "$v $s: exit $?"; head -n 1 $W/err.$n; k delete -f $ID
done; done`},
	{name: "stopped and continued", edit: script(`echo ready; sleep 0.3; echo done`), script: `bg run -b $B $ID
says ready; kill -STOP $p; sleep 0.1; kill -CONT $p; ended`},
	{name: "streams that end", edit: script(writing), script: badStreams + `for v in run 'run -d'; do for f in $FAULTS; do
fault "$v -b $B $ID" "$f" "[ ! -e $ROOT/$ID ] || { $RT --root $ROOT state $ID | grep -q stopped; }"; k delete -f $ID; done; done`},
	{name: "exec with streams that end", script: badStreams + `k run -d -b $B $ID; cat >$B/w <<E
` + writing + `
E
for v in exec 'exec -d'; do for f in $FAULTS; do fault "$v $ID sh -c \"\$(cat $B/w)\"" "$f" "[ \$($RT --root $ROOT ps -f json $ID | jq length) = 1 ]"; done
done`},
	{name: "no terminal", edit: script(`tty; stty size; [ -t 0 ]; echo $?`), script: `conf '.process.terminal=true'
for v in run create 'run -d'; do setsid $RT --root $ROOT $v -b $B $ID </dev/null >$W/o 2>$W/e; echo $?; cat $W/o $W/e; done
r create -b $B --console-socket $W/none $ID; r run -b $B --console-socket $W/none $ID; r run -d -b $B --console-socket $W/none $ID
r run -d -b $B --console-socket '' $ID; r run -d -b $B --console-socket $B $ID; conf '.process.terminal=false'
r create -b $B --console-socket $W/none $ID; r run -b $B --console-socket $W/none $ID; r run -b $B --pidfd-socket $W/none $ID
r state $ID`, differ: []difference{
		{`failed: (failed to dail|pidfd-socket:)`, "sage names the flag"},
	}},
	{name: "terminal", edit: script(`sleep 0.1; tty; stty size; [ -t 0 ]; echo $?; echo err >&2; read x; echo "got $x"; exit 9`), script: `conf '.process.terminal=true'
pty() { script -qefc "stty rows 40 cols 90; $*; echo status \$?; stty -a >$W/after" $W/typed >/dev/null <$W/keys; echo "exit $?"; tr -d '\r' <$W/typed | grep -v '^Script'; grep -v speed $W/after; }
printf 'hello\n' >$W/keys; pty $RT --root $ROOT run -b $B $ID; conf '.process.consoleSize={"height":11,"width":22}'; pty $RT --root $ROOT run -b $B $ID
pty "$RT --root $ROOT run -b $B $ID 2>/dev/null"; pty "$RT --root $ROOT run -b $B $ID | cat"
conf '.process.terminal=false|.process.args=["sleep","1000"]'; k run -d -b $B $ID </dev/null
pty $RT --root $ROOT exec -t $ID sh -c "'sleep 0.1; tty; stty size; read x; echo got \$x; exit 8'"
pty $RT --root $ROOT exec $ID tty`},
	{name: "interrupted terminal", edit: script(trapping), script: `conf '.process.terminal=true'; mkfifo keys; exec 9<>keys
for s in INT TERM HUP QUIT USR1; do rm -f rt typed; env --default-signal=INT,QUIT script -qefc "echo \$\$ >$W/rt; exec $RT --root $ROOT run -b $B $ID" $W/typed >/dev/null <keys & p=$!
await "grep -q ready $W/typed 2>/dev/null"; kill -$s $(cat rt); await "grep -q 'got $s' typed || ! kill -0 $(cat rt) 2>/dev/null"; $RT --root $ROOT kill $ID KILL; wait $p; echo "$s: exit $? $(tr -d '\r' <$W/typed | grep got | sort -u | tr '\n' ' ')"; [ -e $ROOT/$ID ]; echo "gone $?"
k delete -f $ID; done`, differ: []difference{
		{`^[<>] (INT: |gone )`, "SIGINT is relayed like any other signal; runc leaves, with status 0, a container that runs on"},
	}},
	{name: "no-subreaper", edit: script(`sleep 0.2 & exit 3`), script: `conf 'del(.linux.namespaces[]|select(.type=="pid"))'; r run -b $B $ID
r run --no-subreaper -b $B $ID`},
}
