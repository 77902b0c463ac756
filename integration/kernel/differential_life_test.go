//go:build kernel

package kernel

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// TestDifferentialLife: every command on a container of every status, and what
// a container's life leaves on disk.
func TestDifferentialLife(t *testing.T) { duel(t, life) }

func script(text string) func(*specs.Spec) {
	return func(s *specs.Spec) { s.Process.Args = []string{"sh", "-c", text} }
}

// everyVerb is tried on a container, the gentle ones first.
const everyVerb = `
state() { r state $ID; }
r state $ID | jq -Rr . | sed 's/"created": .*/"created": T/'
r list | sed 's/ [0-9][0-9]*  */ N /; s/   */ /g'
r list -q; r list -f json; r list --format=xml
r ps -f json $ID | tr '0-9' 'N'; r ps $ID | sed 's/^out [^ ]* .*\(sleep.*\|init\)/out PS/'
r events --stats $ID | sed 's/^out {.*/out STATS/'
r exec $ID true; r exec -d $ID true; r exec --ignore-paused -d $ID true
r checkpoint --image-path $W/img $ID
r update --pids-limit 100 $ID
r kill $ID 0; r kill -a $ID 0
r create -b $B $ID; r run -b $B $ID; r restore -b $B --image-path $W/none $ID
r start $ID; r state $ID; r start $ID
r resume $ID; r pause $ID; r state $ID; r pause $ID; r resume $ID; r state $ID; r resume $ID
r delete $ID; r state $ID
r kill $ID USR1; r kill $ID; r kill -a $ID KILL; r delete $ID; r delete -f $ID; r delete $ID
ls $ROOT
`

const reallyStop = `k kill $ID KILL; is stopped; `

var life = []twin{
	{name: "none", script: everyVerb},
	{name: "created", script: `k create -b $B $ID;` + everyVerb},
	{name: "running", script: `k run -d -b $B $ID;` + everyVerb},
	{name: "paused", script: `k run -d -b $B $ID; k pause $ID;` + everyVerb},
	{name: "created then paused", script: `k create -b $B $ID; k pause $ID;` + everyVerb},
	{name: "stopped", script: `k run -d -b $B $ID;` + reallyStop + everyVerb},
	{name: "stopped before start", script: `k create -b $B $ID;` + reallyStop + everyVerb},
	{name: "broken state", script: `k run -d -b $B $ID; cp $ROOT/$ID/state.json $W/s; echo '{' >$ROOT/$ID/state.json;
r state $ID; r list; r list -q; r list -f json; r ps $ID; r kill $ID; r exec $ID true; r start $ID; r delete $ID; r delete -f $ID; r events --stats $ID; r update $ID
: >$ROOT/$ID/state.json; r state $ID; r list; r delete -f $ID
mkdir $ROOT/empty; r list; r state empty; r delete empty; ls $ROOT; mkdir $ROOT/empty; r delete -f empty; ls $ROOT; mkdir $ROOT/empty; r create -b $B empty; touch $ROOT/file; r list; r state file; r delete -f file; ls $ROOT
cp $W/s $ROOT/$ID/state.json`},
	{name: "state files", script: `for u in 022 077 0; do umask $u; id=$ID$u; k create -b $B --pid-file $W/p$u $id; (cd $ROOT; stat -c '%a %U %F %n' . $id $id/*; cd $W; stat -c '%a %n' p$u); [ "$(cat p$u)" = "$(pid $id)" ]; echo "pid $?"; tail -c 1 p$u | tr 0-9 N; echo
k start $id; ls -a $ROOT/$id; jq -cS 'keys, (.config|keys), .config.labels' $ROOT/$id/state.json; done
jq -S '.init_process_pid=0|.init_process_start=0|.created=0|.config.rootfs="R"|del(.config.seccomp)' $ROOT/$id/state.json | sed 's/[0-9]*:[0-9]*]"/NS"/'`},
	{name: "pid files", script: `
cd $W; r create -b $B --pid-file rel $ID; ls; wc -c rel | tr 0-9 N; k delete -f $ID
r create -b $B --pid-file $W/no/where $ID; r state $ID; r run -d -b $B --pid-file '' $ID; k delete -f $ID
ln -s target link; echo old >target; r run -d -b $B --pid-file link $ID; stat -c %F link; cat target; r exec -d --pid-file ep $ID sleep 100; wc -c ep | tr 0-9 N; r exec --pid-file ep2 $ID true; ls -a
mkdir dir; r exec -d --pid-file dir $ID sleep 100; r exec -d --pid-file no/where $ID sleep 5; k delete -f $ID
r run -b $B --pid-file no/where $ID; r state $ID; conf '.process.args=["true"]'; r run -b $B --pid-file p3 $ID; ls -a; touch .p4; r run -b $B --pid-file p4 $ID; ls -a`},
	{name: "keep", script: `conf '.process.args=["sh","-c","exit 3"]'; r run --keep -b $B $ID; r state $ID; r run --keep -b $B $ID; k delete $ID
conf '.process.args=["/none"]'; r run --keep -b $B $ID; r state $ID; r run -b $B $ID; r state $ID; r create -b $B $ID; r state $ID; r run -d -b $B $ID; r state $ID
conf '.process.args=["sh","-c","exit 3"]'; r run -d -b $B $ID; is stopped; r delete $ID; r run -d --keep -b $B $ID; is stopped; r delete $ID; ls $ROOT`},
	{name: "list", edit: func(s *specs.Spec) { s.Annotations = map[string]string{"b": "2", "a": "1 <&>"} }, script: `
k run -d -b $B $ID; k create -b $B ${ID}b; r list -f json; r list -f json -q; r list --quiet; r list | sed 's/ [0-9][0-9]*  */ N /; s/  */ /g'; r state $ID; r state $ID | tail -c 2 | od -c; r list -f table -q; r list -f ''
chown 12345 $ROOT/$ID; r list -f json | jq -Rc . | grep -o 'owner.*' ; chown 1 $ROOT/$ID; r list | grep -o 'daemon'`},
	{name: "ids", script: `for id in .. . a/b /a 'a b' -x -- 'é' a:b a@b a+b _a .a a,b "$(head -c 300 /dev/zero | tr '\0' a)"; do r create -b $B "$id"; r state "$id"; r delete -f "$id"; r delete "$id"; done 2>&1 | cut -c 1-300; ls $ROOT`},
	{name: "kill", edit: script(`for s in 1 2 3 10 12 15 28; do trap "echo got $s" $s; done; echo ready; while :; do sleep 0.02; done`), script: `
r run -d -b $B $ID; await 'grep -q ready $W/out.1'
for s in 1 SIGHUP HUP hup sighup 2 INT USR1 SigUsr2 12 TERM WINCH 28 0; do k kill $ID $s; done; await 'grep -q "got 28" $W/out.1'; sort -u $W/out.1
for s in FOO -1 -- 65 64 1000 '' ' ' SIG SIGSIGKILL RTMIN RTMIN+1 SIGRTMIN 9x 0x9 +9 1.5 999999999999999999999 KILL,TERM CLD IOT POLL; do r kill $ID "$s"; done
r kill $ID KILL extra; r kill --all $ID 0; r kill -a=false $ID 0; r kill $ID -a; r kill $ID -a 0; r kill $ID 0 -a; r kill -s 9 $ID; r kill $ID -9; r kill -9 $ID; r kill -- $ID 9`},
	{name: "flag spellings", script: `
k run -d -b $B $ID; r delete --force=false $ID; r delete --force false $ID; r delete $ID --force false; r delete -f=0 $ID; r delete --force=maybe $ID; r delete --force= $ID; r state $ID
r delete $ID --force; r state $ID; k run -d -b $B $ID; r delete $ID -f; k run -d -b $B $ID; r delete -force $ID; k run -d -b $B $ID; r delete -f -f $ID; k run -d -b $B $ID; r delete -f -- $ID; r run -d -b $B -- $ID; r delete -- $ID -f; r delete -- -f $ID; r delete -f $ID
r run -db $B $ID; r run $ID -d -b $B; r delete -f $ID; r run -d=true -b=$B $ID; r delete -f $ID; r run -d --bundle $W/none --bundle $B $ID; r delete -f $ID; r run -d -b '' $ID; cd $B; r run -d -b '' $ID; r delete -f $ID; r run -d --detach=false -b . $ID </dev/null & sleep 0.3; wait_=1; r delete -f $ID; wait
r run -d $ID extra; r run -d --preserve-fds x $ID; r run -d --preserve-fds -1 $ID; r delete -f $ID; r run -d --preserve-fds=0 $ID; r exec $ID --env a; r exec -e A=1 -e B=2 $ID sh -c 'echo $A$B'; r exec --env A=1,B=2 $ID sh -c 'echo $A'; r exec -e A $ID env; r exec -e '' $ID env; r exec -e =x $ID env; r exec -e A= $ID env; r exec -- $ID echo hi; r exec $ID -- echo hi; r exec $ID echo -- -x; r exec $ID; r exec -d=false $ID echo no; r exec --cwd '' $ID pwd; r exec --cwd tmp $ID pwd; r exec --cwd /nowhere $ID pwd; r exec --cwd /tmp --cwd /etc $ID pwd`},
}
