//go:build kernel

package kernel

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// TestDifferentialUpdate: what each update leaves in the cgroup and in the record.
func TestDifferentialUpdate(t *testing.T) { duel(t, updates) }

const cgroupFiles = `
files() { ls -d /sys/fs/cgroup/*/$ID /sys/fs/cgroup/memory/*/*/$ID 2>/dev/null | xargs -I% find % -maxdepth 1 -type f -name '*.*' |
grep -vE 'usage|stat|procs$|pressure|peak|event|force_empty|current|tasks|io_service|io_merged|io_queued|io_wait|sectors|kill|[.]time' | sort | xargs grep -s '' >$W/files.new
[ -e $W/files ] && diff $W/files $W/files.new | grep '^>' | sed 's,/sys/fs/cgroup/,,'; mv $W/files.new $W/files; }
u() { r update "$@" $ID; files; jq -S .config.cgroups $ROOT/$ID/state.json >$W/record.new; [ -e $W/record ] && diff $W/record $W/record.new | grep '^>'; mv $W/record.new $W/record; }
j() { printf '%s' "$1" >$W/j; u -r $W/j; }
`

func limited(s *specs.Spec) {
	s.Linux.Resources = &specs.LinuxResources{
		Memory: &specs.LinuxMemory{Limit: new(int64(64 << 20))},
		CPU:    &specs.LinuxCPU{Shares: new(uint64(512)), Quota: new(int64(50000)), Period: new(uint64(100000)), Cpus: "0-1"},
		Pids:   &specs.LinuxPids{Limit: new(int64(50))},
	}
}

var updates = []twin{
	{name: "flags", edit: limited, script: cgroupFiles + `k run -d -b $B $ID; cat /sys/fs/cgroup/pids/$ID/pids.max; files; u
u --pids-limit 20; u --pids-limit 0; u --pids-limit -1; u --pids-limit x; u --pids-limit ''
u --cpu-share 100; u --cpu-share 0; u --cpu-share -1; u --cpu-share ''; u --cpu-share 300000
u --cpu-period 50000; u --cpu-quota 20000; u --cpu-period 80000 --cpu-quota 40000; u --cpu-quota -1; u --cpu-quota 0; u --cpu-period 0; u --cpu-period 1
u --cpu-quota 100; u --cpu-period x
u --cpu-quota 30000; u --cpu-burst 10000; u --cpu-burst 0; u --cpu-burst 999999999; u --cpu-rt-period 100000; u --cpu-rt-runtime 1000; u --cpu-idle 1
u --cpu-idle 0; u --cpu-idle 2; u --cpu-idle x
u --cpuset-cpus 0; u --cpuset-cpus 0-1; u --cpuset-cpus 9; u --cpuset-cpus x; u --cpuset-mems 0; u --cpuset-mems 5; u --cpuset-cpus ''
u --memory 32m; u --memory 33554432; u --memory 64M --memory-swap 128M; u --memory-swap -1; u --memory -1; u --memory 50m; u --memory 0; u --memory 1
u --memory x; u --memory -2; u --memory 100k --memory-swap 50k
u --memory 64m; u --memory-reservation 32m; u --memory-reservation -1; u --memory-swap 10m; u --memory 16m --memory-reservation 32m
u --blkio-weight 500; u --blkio-weight 5; u --blkio-weight 2000; u --blkio-weight -1; u --blkio-weight 70000; u --blkio-weight 0; u --blkio-weight x
u --l3-cache-schema L3:0=f; u --mem-bw-schema MB:0=70; u --memory 32m --pids-limit 33 --cpu-share 200; u
u --cpu-idle 1 --cpu-share 5`, differ: []difference{
		{`^(< err .*failed to write .*blkio.*|> err .*invalid value for blkio-weight: saw)`, "a weight out of range is refused before it is cut to 16 bits"},
	}},
	{name: "kernel memory", edit: limited, script: cgroupFiles + `k run -d -b $B $ID; files; u --kernel-memory 1m; u --kernel-memory-tcp 1m; u --kernel-memory x; u --kernel-memory ''; u --kernel-memory 1m --memory 32m; j '{"memory":{"kernel":1000000}}'; j '{"memory":{"kernelTCP":1000000}}'`},
	{name: "documents", edit: limited, script: cgroupFiles + `k run -d -b $B $ID; files; u
j '{}'; j ''; j '{'; j null; j '[]'; j 5; j '{"unknown":1}'; j '{"memory":5}'; j '{"memory":{"limit":"x"}}'; j '{"memory":{"limit":33554432}} trailing'
j '{"MEMORY":{"Limit":33554432}}'
j '{"memory":{"limit":33554432}}'; j '{"memory":{"limit":-1}}'; j '{"memory":{"limit":50000000,"swap":100000000}}'
j '{"memory":{"limit":1048576,"checkBeforeUpdate":true}}'; j '{"memory":{"limit":1,"checkBeforeUpdate":true}}'
j '{"memory":{"limit":67108864,"reservation":1048576}}'; j '{"memory":{"swappiness":10}}'; j '{"memory":{"disableOOMKiller":true}}'
j '{"memory":{"useHierarchy":true}}'
j '{"cpu":{"shares":100}}'; j '{"cpu":{"quota":20000}}'; j '{"cpu":{"period":50000}}'; j '{"cpu":{"quota":20000,"period":50000}}'
j '{"cpu":{"quota":-1,"period":50000}}'; j '{"cpu":{"quota":0,"period":0}}'; j '{"cpu":{"cpus":"0","mems":"0"}}'; j '{"cpu":{"idle":1}}'
j '{"cpu":{"idle":0}}'; j '{"cpu":{"burst":1000}}'; j '{"cpu":{"realtimePeriod":10000,"realtimeRuntime":10}}'
j '{"pids":{"limit":7}}'; j '{"pids":{"limit":0}}'; j '{"pids":{"limit":-1}}'; j '{"pids":{}}'
j '{"blockIO":{"weight":300}}'; j '{"blockIO":{"leafWeight":300}}'; j '{"blockIO":{"throttleReadBpsDevice":[{"major":7,"minor":0,"rate":1000}]}}'
j '{"blockIO":{"throttleReadBpsDevice":[{"major":7,"minor":0,"rate":2000},{"major":7,"minor":1,"rate":3000}]}}'
j '{"blockIO":{"throttleReadBpsDevice":[{"major":7,"minor":0,"rate":0}]}}'
j '{"blockIO":{"throttleWriteIOPSDevice":[{"major":7,"minor":0,"rate":10}]}}'; j '{"blockIO":{"weightDevice":[{"major":7,"minor":0,"weight":100}]}}'
j '{"unified":{"memory.high":"1000000"}}'; j '{"unified":{"../x":"1"}}'; j '{"unified":{}}'; j '{"devices":[{"allow":true,"access":"rwm"}]}'
j '{"hugepageLimits":[{"pageSize":"2MB","limit":0}]}';;
echo '{"pids":{"limit":9}}' | r update -r - $ID; files; r update -r - $ID </dev/null; r update -r $W/none $ID; r update -r $W $ID; r update -r '' $ID
r update --resources $W/j --pids-limit 77 $ID; files`},
	{name: "nulls", edit: limited, script: cgroupFiles + `k run -d -b $B $ID; files; for b in memory cpu pids blockIO; do echo "{\"$b\":null}" | $RT --root $ROOT update -r - $ID 2>/dev/null; echo "$b: $?"; files; done`, differ: []difference{
		{`^[<>] (memory|cpu|pids|blockIO): [02]$`, "runc panics"},
	}},
	{name: "stopped and paused", edit: limited, script: cgroupFiles + `k create -b $B $ID; files; u --pids-limit 30; r start $ID; k pause $ID; u --pids-limit 31; j '{"memory":{"limit":33554432}}'; k resume $ID; k kill $ID KILL; is stopped; u --pids-limit 32; ls /sys/fs/cgroup/*/ | grep -c $ID`},
	{name: "events", edit: limited, script: `k run -d -b $B $ID
r events --stats $ID | sed 's/[0-9][0-9]*/N/g; s/"raw":{[^}]*}/RAW/; s/\["\?N[N,]*"\?\]/LIST/g; s/,"throttling":{[^}]*}//; s/"cache":N,//'; $RT --root $ROOT events --stats $ID | jq -S 'del(.data.memory.raw)|del(.data.cpu)|del(.data.memory.usage)|del(.data.pids.current)|del(.data.memory.kernel)|del(.data.memory.cache)|del(.data.memory.swap)'
r events --interval 0 $ID; r events --interval -1s $ID; r events --interval x $ID; r events --interval 1 $ID
r events --stats --interval 0 $ID | cut -c 1-20
: >$W/ev; $RT --root $ROOT events --interval 50ms $ID >$W/ev 2>&1 & await '[ $(grep -c stats $W/ev) -gt 1 ]'; cut -c 1-15 $W/ev | sort -u; k kill $ID KILL
k delete -f $ID; wait; r events $ID`},
	{name: "oom", edit: func(s *specs.Spec) {
		limited(s)
		s.Linux.Resources.Memory.Limit = new(int64(16 << 20))
		s.Process.Args = []string{"sh", "-c", "read x; tail -c 100m /dev/zero | cat >/dev/null; echo $?; read x"}
	}, script: `mkfifo in; exec 9<>in; k run -d -b $B $ID <in; : >$W/ev; $RT --root $ROOT events --interval 100s $ID >$W/ev 2>&1 & sleep 0.2; echo >&9
await 'grep -q oom $W/ev'; k delete -f $ID; wait; sort -u $W/ev`},
}
