//go:build kernel

package kernel

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// TestDifferentialPayload: what a payload finds itself in, and how its end is told.
func TestDifferentialPayload(t *testing.T) { duel(t, payload) }

// looks prints a process's surroundings. Builtins only where it matters: what a
// shell starts has the shell's signals.
const looks = `
env | sort; pwd; umask; id
grep -E '^(Sig(Blk|Ign)|Cap|NoNew|Seccomp|Groups|Uid|Gid|Umask|Cpus_allowed:)' /proc/self/status
for f in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$f ] && echo "fd $f $(readlink /proc/$$/fd/$f | sed 's/[0-9]\{3,\}/N/g')"; done
set -- $(cat /proc/$$/stat); echo "pgrp $(( $5 == $$ )) session $(( $6 == $$ )) tty $7 foreground $(( $8 == $$ )) nice ${19}"
cat /proc/self/cgroup /proc/self/oom_score_adj /proc/self/limits /proc/self/loginuid /proc/self/timerslack_ns /proc/self/coredump_filter
grep "_ses.$(basename $(tail -n 1 /proc/self/cgroup)):" /proc/keys | awk '{print $5,$6,$7,$8,$9,$10}'; cat /proc/self/attr/current; cat /proc/self/setgroups
cat /proc/self/autogroup | sed 's/[0-9]*$//; s/-[0-9]* /N /'; hostname; dmesg 2>&1 | head -c 0; cat /proc/self/personality
tty; stty size; stat -c '%a %u %g %F' /dev/stdin /dev/stdout; awk '{print $5,$6,$9}' /proc/self/mountinfo; ls -ln /dev | awk '{print $1,$3,$4,$NF}'; ls -ld / /proc /sys | awk '{print $1,$3,$4,$9}'; stat -c '%A %U %G %n' /dev/shm /tmp
`

func looking(s *specs.Spec) {
	s.Process.Args = []string{"sh", "-c", looks}
	s.Process.OOMScoreAdj = new(321)
	s.Linux.MaskedPaths = nil // so that /proc/keys tells of the session keyring
}

var payload = []twin{
	{name: "run", edit: looking, script: `r run -b $B $ID`},
	{name: "run with input", edit: script(`cat; echo end`), script: `printf 'one\ntwo' | r run -b $B $ID; r run -b $B $ID <$B/config.json | wc -c
r run -b $B $ID <&-`},
	{name: "run detached", edit: looking, script: `k run -d -b $B $ID </dev/null; is stopped; cat $W/out.1 $W/err.1`},
	{name: "create and start", edit: looking, script: `echo input >$W/in; r create -b $B $ID <$W/in; r start $ID; is stopped; cat $W/out.1 $W/err.1`},
	{name: "caller that ignores signals", edit: script(`grep SigBlk /proc/self/status; echo; sleep 1000`), script: `trap '' HUP INT QUIT USR1 USR2 PIPE TERM ALRM CHLD
k create -b $B $ID; k start $ID; await '[ $(wc -l <$W/out.1) = 2 ]'; cat $W/out.1`},
	{name: "exec", script: `k run -d -b $B $ID; r exec -e X=1 -u 12:34 -g 5 -g 6 --cwd /tmp $ID sh -c "$LOOKS"
k exec -d $ID sh -c "$LOOKS echo; echo the end" </dev/null; says 'the end'; cat $W/out.$n $W/err.$n`},
	{name: "exec flags", script: `k run -d -b $B $ID
r exec -u x nobody true; r exec -g -1 nobody true
for u in 1 1:2 :2 1: a a:1 1:a -1 1:-1 4294967295 4294967296 2147483648 4294967294 1:4294967295 +1 1:2:3 ''; do r exec -u "$u" $ID sh -c 'id -u; id -g; echo $HOME'; done
for g in 1 -1 a 4294967295 4294967296 1,2 ''; do r exec -g "$g" $ID id; done
for c in CAP_SYS_ADMIN cap_sys_admin SYS_ADMIN CAP_NOTHING '' CAP_SYS_ADMIN,CAP_NET_RAW; do r exec -c "$c" $ID grep Cap /proc/self/status; done
r exec -c CAP_SYS_ADMIN -u 1 $ID grep Cap /proc/self/status
r exec --no-new-privs $ID grep NoNew /proc/self/status; r exec --no-new-privs=false $ID grep NoNew /proc/self/status
r exec --apparmor x $ID true; r exec --process-label x $ID true; r exec --process-label '' $ID true
for c in / '' memory:/ memory:a ,:/ a:b memory,pids:/ 'memory:/ --cgroup pids:/' 'memory:/ --cgroup memory:/' \
'/ --cgroup /'  '../x'; do r exec --cgroup $c $ID cat /proc/self/cgroup; done
r exec --console-socket $W/none $ID true; r exec -t --console-socket $W/none $ID true; r exec -t -d $ID true
r exec -t -d --console-socket $W/none $ID true; r exec --pidfd-socket $W/none $ID true; r exec --preserve-fds 1 $ID true; r exec -t $ID true
r exec -e HOME=/x $ID sh -c 'echo $HOME'; r exec -e PATH=/nowhere $ID true; r exec -e PATH= $ID true; r exec -e TERM=x $ID env; conf 'del(.process.env)'
r exec $ID env; r exec $ID /bin/env; conf '.process.user.uid=7'; r exec $ID id; rm $B/config.json; r exec $ID true; mv $B $B.moved
r exec $ID true`, differ: []difference{
		{`bad [ug]id: strconv.(Atoi|ParseUint)`, "the name of another Go function"},
		{`^(< err .*unmapped [ug]id 4294967295|> err .*bad [ug]id: 4294967295 is above|< err .*setgroups: invalid|> err .*additional-gids must)`, "an id that no process can have is refused before anything is done"},
		{`^(< exit 0|< out |> exit 255)`, "ids are unsigned 32-bit numbers, more is not cut off: runc takes 4294967296 for root"},
		{`exec failed: (failed to dail|pidfd-socket)`, "sage names the flag"},
		{`^> err .*unable to stat preserved-fd 0`, "only descriptors that the caller handed over are passed on (README)"},
	}},
	{name: "exec of a process file", script: `k run -d -b $B $ID
conf '.process.args=["true"]'; p() { jq -c ".process|$1" $B/config.json >$W/p; r exec -p $W/p $ID "$@"; r exec --process $W/p $ID; }
p '.args=["sh","-c","id; pwd; env"]|.env=["A=1"]|.cwd="/tmp"|.user={"uid":3,"gid":4,"additionalGids":[5]}'; p '.args=[]'; p 'del(.args)'; p 'del(.cwd)'
p '.cwd="tmp"'; p '.user.uid=-1'; p '.terminal=true'; p '.rlimits=[{"type":"RLIMIT_NOPE","hard":1,"soft":1}]'
p '.rlimits=[{"type":"RLIMIT_NOFILE","hard":10,"soft":20}]'
p '.args=["sh","-c","ulimit -n; ulimit -Hn"]|.rlimits=[{"type":"RLIMIT_NOFILE","hard":64,"soft":32}]'
p 'del(.capabilities)|.args=["grep","Cap","/proc/self/status"]'; p '.selinuxLabel="x"'; p '.apparmorProfile="x"'
p '.oomScoreAdj=5|.args=["cat","/proc/self/oom_score_adj"]'; p '.noNewPrivileges=false|.args=["grep","NoNew","/proc/self/status"]'; p '.args=[""]'
p '.args=5'; p 'null'; p '.capabilities.bounding=["CAP_NO"]'
for t in '' '{' '[]' 'null' '{}' '{"args":["/bin/true"],"cwd":"/"} x' '{"args":["true"],"cwd":"/","unknown":1}' \
'{"Args":["true"],"CWD":"/"}'; do printf '%s' "$t" >$W/p; r exec -p $W/p $ID; done; r exec -p $W/none $ID; r exec -p $W $ID; r exec -p '' $ID true
r exec -p /dev/null $ID true`, differ: []difference{
		{`^< err .*exec failed: (args must|Cwd |json: |wrong rlimit|EOF|unexpected EOF|read WORK)`, "sage names the field, or the file, and the place"},
		{`^> err .*exec failed: (read process: |process.rlimits: )`, "the same"},
		{`^(< exit 0|> exit 255)`, "a second document is refused (README)"},
	}},
	{name: "exit statuses of run", script: `for a in 'exit 0' 'exit 1' 'exit 127' 'exit 255' 'sh -c "kill -9 \$\$"; exit $?' \
'exit 256'; do conf ".process.args=[\"sh\",\"-c\",$(printf %s "$a" | jq -Rs .)]"; r run -b $B $ID; done`},
	{name: "exit statuses of exec", script: `k run -d -b $B $ID
for s in 1 2 3 6 8 9 11 13 14 15 24 31 34 64; do $RT --root $ROOT exec $ID sh -c "kill -$s \$\$" 2>$W/e; echo "$s: $?"
cat $W/e; done; for s in 0 1 127 255; do r exec $ID sh -c "exit $s"; done`},
	{name: "run killed by a signal", script: `k run -b $B $ID & is running; for s in 9; do k kill $ID $s; wait; done; r run -b $B $ID & is running
k kill $ID KILL; wait`},
	{name: "programs that cannot run", edit: func(s *specs.Spec) { s.Root.Path = "rootfs"; s.Process.Args = []string{"sleep", "1000"} }, script: `
mkdir $B/rootfs; cp -a $BUSYBOX/. $B/rootfs; R=$B/rootfs; printf '#!/nowhere\n' >$R/badinterp; printf 'x' >$R/text; printf '\177ELF\2\1\1' >$R/short; : >$R/empty; echo 'echo script' >$R/noshebang; chmod 755 $R/badinterp $R/text $R/short $R/empty $R/noshebang; echo x >$R/noexec; mkdir $R/dir; mkfifo $R/fifo; ln -s loop $R/loop; ln -s none $R/dangling; (head -c 18 $R/bin/busybox; printf '\267\0'; tail -c +21 $R/bin/busybox) >$R/arm; chmod 755 $R/arm; chmod 4755 $R/text
for p in /none none ./none /badinterp /noshebang /noexec /dir /dangling ''; do conf ".process.args=[$(printf %s "$p" | jq -Rs .)]"
for v in run create; do r $v -b $B $ID </dev/null; [ -e $ROOT/$ID ] && { k start $ID; is stopped; cat $W/err.*
k delete -f $ID; }; rm -f $W/err.* $W/out.*; done; done
conf '.process.args=["sleep","1000"]'; k run -d -b $B $ID
for p in /none none ./none /badinterp /text /short /empty /noshebang /noexec /dir dir /fifo /loop /dangling /arm / . '' ' ' bin/true /bin/true/x /etc/passwd; do r exec $ID "$p"; done
r exec -d $ID /none; r exec -d $ID /dir; r exec -u 1 $ID /noexec; r exec -u 99 --cwd /root $ID true`},
}
