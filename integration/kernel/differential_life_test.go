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
r ps -f json $ID | sed 's/[0-9][0-9]*/N/g'; r ps $ID | sed 's/^out [^ ]* .*\(sleep.*\|init\)/out PS/'
r events --stats $ID | sed 's/^out {.*/out STATS/'
r exec $ID true; r exec -d $ID true
r checkpoint --image-path $W/img $ID | grep -v 'msg="[0-9]'; ls $W | grep img
r update --pids-limit 100 $ID
r kill $ID 0; r kill -a $ID 0
r create -b $B $ID; r run -b $B $ID; r restore -b $B --image-path $W/none $ID
r start $ID; r state $ID; r start $ID
r resume $ID; r pause $ID; r state $ID; r pause $ID; r resume $ID; r state $ID; r resume $ID
r delete $ID; r state $ID
r kill $ID USR1; r kill $ID; r kill -a $ID KILL; is stopped; r delete $ID; r delete -f $ID; r delete $ID
ls $ROOT
`

const reallyStop = `k kill $ID KILL; is stopped; `

var life = []twin{
	{name: "none", script: everyVerb},
	{name: "systemd driver", script: `g --root $ROOT --systemd-cgroup run -b $B $ID; ls $ROOT
for p in a a:b a:b:c system.slice:x:'$ID' /a; do
	conf ".linux.cgroupsPath=\"$p\""; g --root $ROOT --systemd-cgroup create -b $B $ID; ls $ROOT
done
conf '.linux.cgroupsPath="a:b:c"|.process.args=["grep","-c","a:b:c","/proc/self/cgroup"]'; r run -b $B $ID`},
	{name: "paused and ignored", script: `k run -d -b $B $ID; k pause $ID; bg exec --ignore-paused $ID echo hi; sleep 0.2; k resume $ID; ended`},
	{name: "checkpoint and restore", script: `k run -d -b $B $ID; d() { echo "== $*"; $RT --root $ROOT "$@" >o 2>e; echo "exit $?"; show out o | head -n 3; grep -v 'msg="*\([0-9]\|---\)' e; ls -d im checkpoint 2>/dev/null; rm -rf im checkpoint; }
d checkpoint $ID; for f in '--parent-path /x' '--parent-path x' '--page-server x' '--page-server :1' '--page-server a:' '--page-server a:x' \
'--page-server a:70000' '--empty-ns network' '--empty-ns mount' '--manage-cgroups-mode x' '--manage-cgroups-mode soft' '--status-fd x' \
'--status-fd 99' \
'--image-path b/config.json' '--image-path /proc/x' --pre-dump; do d checkpoint --image-path im $f $ID; d checkpoint $f nobody; done
for f in '' '--image-path none' '--image-path b' '--image-path b --empty-ns mount' '--image-path b --manage-cgroups-mode x' \
'--image-path b --lsm-profile x' '--image-path b --lsm-profile a:b' '--image-path b --lsm-mount-context x' '--image-path b --console-socket x' \
'--image-path b --detach' '--image-path b --pid-file p'; do d restore $f -b $B new; done; d restore -b $B $ID; d restore -b nowhere new
r state $ID | grep status; r list -q`, differ: []difference{
		{`^< .*(stat im/x:|mkdir b/|open (none|b):)|^> .*(stat WORK/im/x/:|mkdir WORK/b/|/descriptors.json:)`, "a relative --image-path is from where the command was given, runc's restore takes it from the bundle"},
		{`^(< .*criu|> .*Invalid port number)`, "a port has 16 bits"},
	}},
	{name: "hooks", script: `h() { conf ".hooks={}|.hooks.$1=[{\"path\":\"/bin/sh\",\"args\":[\"sh\",\"-c\",\"$2\"]}]"; }
conf '.process.args=["sh","-c","echo payload; exit 3"]'
for k in prestart createRuntime createContainer startContainer poststart poststop; do for c in 'echo fails >&2; exit 7' \
'cat >/dev/null; echo out; exit 0'; do h $k "$c"; echo "== $k"; r run -b $B $ID; r create -b $B $ID; r start $ID; r delete -f $ID; done; done; ls $ROOT
for e in '{"path":"relative"}' '{"path":"/no/where"}' '{"path":"/bin/sh","timeout":0}' '{"path":"/bin/sh","timeout":-1}' \
'{}'; do conf ".hooks={\"createRuntime\":[$e]}"; r run -b $B $ID; done
for k in createRuntime poststart poststop; do conf ".hooks={\"$k\":[{\"path\":\"/bin/sh\",\"args\":[\"sh\",\"-c\",\"cat >>$W/state; env >>$W/env; pwd >>$W/env\"],\"env\":[\"A=1\"]}]}"
k create -b $B $ID; k start $ID; k delete -f $ID; jq -S . state; sort env; rm state env; done`},
	{name: "debug", edit: script("exit 3"), script: `d() { rm -f l; $RT --root $ROOT --debug --log l --log-format json "$@" >o 2>e </dev/null; echo "exit $?"; jq -r '"\(.level) \(.msg)"' l | sed 's/[0-9][0-9]*/N/g' | grep -v 'closing thread' | sort -u; }
d run -b $B $ID; conf '.process.args=["sleep","1000"]'; d create -b $B $ID; d start $ID; d exec $ID true; d exec $ID /no/such
d update --pids-limit 5 $ID; d kill $ID KILL; is stopped; d delete $ID; $RT --root $ROOT --debug state x 2>&1 | grep -o ' \(func\|file\)='
bg --debug run -b $B $ID; is running; kill -TERM $p
k kill $ID KILL; wait $p; grep -oE 'msg="(forwarding|process exited)' $W/err.$m | sed 's/[0-9][0-9]*/N/g'`},
	{name: "configs", edit: func(s *specs.Spec) { s.Process.Args = []string{"true"}; s.Root.Path = "rootfs" }, script: `cp -a $BUSYBOX $B/rootfs; cp $B/config.json $W/c; c() { jq -c "$1" $W/c >$B/config.json
r run -b $B $ID; [ -e $ROOT/$ID ] && k delete -f $ID; }
for e in 'del(.process)' '.process.args=[]' 'del(.process.cwd)' '.process.cwd="tmp"' '.process.cwd="/none/such"' 'del(.root)' '.root.path="none"' \
'.root.path=""' '.root.path="'$W'/c"' 'del(.linux)' '.linux.namespaces=[]' '.linux.namespaces[0].path="/none"' \
'.linux.namespaces+=[.linux.namespaces[0]]' '.linux.namespaces[0].type="x"' '.process.rlimits=[{"type":"X","hard":1,"soft":1}]' \
'.process.rlimits=[{"type":"RLIMIT_NOFILE","hard":1,"soft":2}]' '.process.capabilities.bounding=["CAP_X"]' '.process.apparmorProfile="x"' \
'.process.selinuxLabel="x"' '.linux.mountLabel="x"' '.linux.cgroupsPath="../x"' '.linux.sysctl={"a.b":"1"}' \
'.linux.sysctl={"net.core.somaxconn":"x"}' \
'.linux.resources.memory={"limit":1}' '.linux.resources.unified={"memory.max":"1"}' '.linux.resources.pids={"limit":1}' \
'.linux.rootfsPropagation="x"' \
'.linux.maskedPaths=["relative"]' '.linux.seccomp={"defaultAction":"X"}' '.linux.seccomp={"defaultAction":"SCMP_ACT_ALLOW","architectures":["X"]}' \
'.linux.seccomp={"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["nosuch"],"action":"SCMP_ACT_ERRNO"}]}' '.linux.intelRdt={"closID":"x"}' \
'.linux.personality={"domain":"X"}' '.linux.devices=[{"path":"/dev/x","type":"z","major":1,"minor":3}]' \
'.mounts+=[{"destination":"relative","type":"tmpfs","source":"t"}]' '.mounts+=[{"destination":"/a","type":"nosuch","source":"t"}]' \
'.mounts+=[{"destination":"/tmp","type":"bind","source":"/none","options":["bind"]}]' \
'.mounts+=[{"destination":"/proc","type":"bind","source":"/tmp","options":["bind"]}]' \
'.mounts+=[{"destination":"/tmp","type":"tmpfs","source":"t","options":["nosuchoption"]}]' \
'.hostname="a"|del(.linux.namespaces[]|select(.type=="uts"))' '.domainname="a"' '.ociVersion="1.0.0"' '.ociVersion=""' '.process.user.uid=99999' \
'.process.user.umask=63' '.process.oomScoreAdj=2000' '.process.scheduler={"policy":"SCHED_X"}' '.process.ioPriority={"class":"X"}' \
'.process.env=["A","=b","C=d","C=e"]' '.process.execCPUAffinity={"initial":"x"}' '.annotations={"org.systemd.property.X":"y"}' \
'.linux.uidMappings=[{"containerID":0,"hostID":0,"size":1}]' '.linux.timeOffsets={"monotonic":{"secs":1}}' '.process.noNewPrivileges=null' \
'.root.readonly=false|.process.args=["touch","/tmp/x"]'; do echo "== $e"; c "$e"; done
for t in '' '{' '[]' null '{}' '5' '"x"' '{"process":5}' '{"process":{"args":"x"}}' "$(cat $W/c) x"; do printf %s "$t" >$B/config.json
r create -b $B $ID; [ -e $ROOT/$ID ] && k delete -f $ID; done; rm $B/config.json; r run -b $B $ID; mkdir $B/config.json; r run -b $B $ID
r run -b $W/none $ID; r run -b $W/c $ID; rm -r $B/config.json; ln -s $W/c $B/config.json; r run -b $B $ID; r run --no-pivot -b $B $ID
r run --no-new-keyring -b $B $ID`, differ: []difference{
		{`^< err .* failed: (process property must|args must|Cwd |wrong rlimit|EOF|unexpected EOF|json: |config cannot|read config.json: is|.*fork/exec .* not a directory)`, "sage names the field, or the file, and the place"},
		{`^> err .* failed: (read config.json: |process.rlimits: |root.path: )`, "the same"},
		{`^(< exit 0|> exit 1)`, "an ociVersion that is not 1.x and a second document are refused (README)"},
	}},
	{name: "created", script: `k create -b $B $ID;` + everyVerb},
	{name: "running", script: `k run -d -b $B $ID;` + everyVerb},
	{name: "paused", script: `k run -d -b $B $ID; k pause $ID;` + everyVerb},
	{name: "created then paused", script: `k create -b $B $ID; k pause $ID;` + everyVerb},
	{name: "stopped", script: `k run -d -b $B $ID;` + reallyStop + everyVerb},
	{name: "stopped before start", script: `k create -b $B $ID;` + reallyStop + everyVerb},
	{name: "broken state", script: `k run -d -b $B $ID; cp $ROOT/$ID/state.json $W/s; echo '{' >$ROOT/$ID/state.json;
r state $ID; r list; r list -q; r list -f json; r ps $ID; r kill $ID; r exec $ID true; r start $ID; r delete $ID; r delete -f $ID; r events --stats $ID
r update $ID
: >$ROOT/$ID/state.json; r state $ID; r list; r delete -f $ID
mkdir $ROOT/empty; r list; r state empty; r delete empty; ls $ROOT; mkdir $ROOT/empty; r delete -f empty; ls $ROOT; mkdir $ROOT/empty
r create -b $B empty; r delete -f empty; touch $ROOT/file; r list; r state file; r delete -f file; ls $ROOT; rm $ROOT/file
cp $W/s $ROOT/$ID/state.json`},
	{name: "state files", script: `for u in 022 077 0; do umask $u; id=$ID$u
k create -b $B --pid-file $W/p$u $id; (cd $ROOT; stat -c '%a %U %F %n' . $id $id/*; cd $W; stat -c '%a %n' p$u); [ "$(cat p$u)" = "$(pid $id)" ]; echo "pid $?"; tail -c 1 p$u | tr 0-9 N; echo
k start $id; ls -a $ROOT/$id; jq -cS 'keys, (.config|keys), .config.labels' $ROOT/$id/state.json; done
jq -S '.init_process_pid=0|.init_process_start=0|.created=0|.config.rootfs="R"|del(.config.seccomp)' $ROOT/$id/state.json | cat`, differ: []difference{
		{`^> (600 root regular file ID\d+/)?pending.json$`, "the record for delete --force of a create that was killed (README)"},
	}},
	{name: "pid files", script: `
cd $W; r create -b $B --pid-file rel $ID; ls; wc -c rel | tr 0-9 N; k delete -f $ID
r create -b $B --pid-file $W/no/where $ID; r state $ID; r run -d -b $B --pid-file '' $ID; k delete -f $ID
ln -s target link; echo old >target; r run -d -b $B --pid-file link $ID; stat -c %F link; cat target
r exec -d --pid-file ep $ID sleep 100; wc -c ep | tr 0-9 N; r exec --pid-file ep2 $ID true; ls -a
mkdir dir; r exec -d --pid-file dir $ID sleep 100; r exec -d --pid-file no/where $ID sleep 5; k delete -f $ID
r run -b $B --pid-file no/where $ID; r state $ID; conf '.process.args=["true"]'; r run -b $B --pid-file p3 $ID; ls -a; touch .p4
r run -b $B --pid-file p4 $ID; ls -a`, differ: []difference{
		{`^< \.dir$`, "no temporary file is left after a failure"},
		{`^(< exit 1|< err .*/\.p4: file exists|> exit 0|> p4)`, "each writer's temporary file has a name of its own"},
	}},
	{name: "keep", script: `conf '.process.args=["sh","-c","exit 3"]'; r run --keep -b $B $ID; r state $ID; r run --keep -b $B $ID; k delete $ID
conf '.process.args=["/none"]'; for v in run 'run -d' create 'run --keep' 'run -d --keep'; do r $v -b $B $ID; echo "$v: $(ls $ROOT)"
k delete -f $ID; done
conf '.process.args=["sh","-c","exit 3"]'; r run -d -b $B $ID; is stopped; r delete $ID; r run -d --keep -b $B $ID; is stopped
r delete $ID; ls $ROOT`},
	{name: "list", edit: func(s *specs.Spec) { s.Annotations = map[string]string{"b": "2", "a": "1 <&>"} }, script: `
k run -d -b $B $ID; k create -b $B ${ID}b; r list -f json; r list -f json -q; r list --quiet; r list | sed 's/ [0-9][0-9]*  */ N /; s/  */ /g'
r state $ID; r state $ID | tail -c 2 | od -c; r list -f table -q; r list -f ''
chown 12345 $ROOT/$ID; r list -f json | jq -Rc . | grep -o 'owner.*' ; chown 1 $ROOT/$ID; r list | grep -o 'daemon'`},
	{name: "ids", script: `for id in .. . a/b /a 'a b' -x -- 'é' a:b a@b a+b _a .a a,b "$(head -c 300 /dev/zero | tr '\0' a)"; do r create -b $B "$id"
r state "$id"; r delete -f "$id"; r delete "$id"; done 2>&1 | sed 's/aaa*/A/g'; ls $ROOT`},
	{name: "kill", edit: script(`for s in 1 2 3 10 12 15 28; do trap "echo got $s" $s; done; echo ready; while :; do sleep 0.02; done`), script: `
k run -d -b $B $ID; says ready
for s in 1 SIGHUP HUP hup sighup 2 INT USR1 SigUsr2 12 TERM WINCH 28 0; do k kill $ID $s; done; await 'grep -q "got 28" $W/out.1'; sort -u $W/out.1
for s in FOO -1 -- 65 64 1000 '' ' ' SIG SIGSIGKILL RTMIN RTMIN+1 SIGRTMIN 9x 0x9 +9 1.5 999999999999999999999 KILL,TERM CLD IOT POLL; do r kill $ID "$s"; done
r kill $ID KILL extra; r kill --all $ID 0; r kill -a=false $ID 0; r kill $ID -a; r kill $ID -a 0; r kill $ID 0 -a; r kill -s 9 $ID; r kill $ID -9
r kill -9 $ID; r kill -- $ID 9`},
	{name: "flag spellings", script: `
k run -d -b $B $ID; r delete --force=false $ID; r delete --force false $ID; r delete $ID --force false; r delete -f=0 $ID; r delete --force=maybe $ID
r delete --force= $ID; r state $ID
r delete $ID --force; r state $ID; k run -d -b $B $ID; r delete $ID -f; k run -d -b $B $ID; r delete -force $ID; k run -d -b $B $ID; r delete -f -f $ID
k run -d -b $B $ID; r delete -f -- $ID; r run -d -b $B -- $ID; r delete -- $ID -f; r delete -- -f $ID; r delete -f $ID
r run -db $B $ID; r run $ID -d -b $B; r delete -f $ID; r run -d=true -b=$B $ID; r delete -f $ID; r run -d --bundle $W/none --bundle $B $ID
r delete -f $ID; r run -d -b '' $ID; cd $B; r run -d -b '' $ID; r delete -f $ID; r run -d --detach=false -b . $ID </dev/null & sleep 0.3; wait_=1
r delete -f $ID; wait
r run -d $ID extra; r run -d --preserve-fds x $ID; r run -d --preserve-fds -1 $ID; r delete -f $ID; r run -d --preserve-fds=0 $ID; r exec $ID --env a
r exec -e A=1 -e B=2 $ID sh -c 'echo $A$B'; r exec --env A=1,B=2 $ID sh -c 'echo $A'; r exec -e A $ID env; r exec -e '' $ID env; r exec -e =x $ID env
r exec -e A= $ID env; r exec -- $ID echo hi; r exec $ID -- echo hi; r exec $ID echo -- -x; r exec $ID; r exec -d=false $ID echo no
r exec --cwd '' $ID pwd; r exec --cwd tmp $ID pwd; r exec --cwd /nowhere $ID pwd; r exec --cwd /tmp --cwd /etc $ID pwd`, differ: []difference{
		{`exec failed: (process.cwd: )?Cwd must`, "sage names the field"},
	}},
}
