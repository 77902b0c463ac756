package hardening

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/spec"
)

func resources(r specs.LinuxResources) func(*specs.Spec) {
	return func(s *specs.Spec) { s.Linux.Resources = &r }
}

// Proves: S-003, S-004, S-005, S-006, E-027.
func TestResources(t *testing.T) {
	const gib = 1 << 30
	memory := func(m specs.LinuxMemory) func(*specs.Spec) { return resources(specs.LinuxResources{Memory: &m}) }
	cpu := func(c specs.LinuxCPU) func(*specs.Spec) { return resources(specs.LinuxResources{CPU: &c}) }
	pids := func(n int64) func(*specs.Spec) {
		return resources(specs.LinuxResources{Pids: &specs.LinuxPids{Limit: &n}})
	}
	unified := func(key, value string) func(*specs.Spec) {
		return resources(specs.LinuxResources{Unified: map[string]string{key: value}})
	}
	wantMemory := func(want specs.LinuxMemory) func(*testing.T, Result) {
		return func(t *testing.T, r Result) {
			t.Helper()
			if diff := cmp.Diff(*r.Spec.Linux.Resources.Memory, want); diff != "" {
				t.Errorf("got, want: %s", diff)
			}
		}
	}
	wantCPU := func(quota int64, period uint64) func(*testing.T, Result) {
		return func(t *testing.T, r Result) {
			t.Helper()
			c := r.Spec.Linux.Resources.CPU
			if *c.Quota != quota || *c.Period != period || c.Burst != nil {
				t.Errorf("got %d of %d, burst %v, want %d of %d and none", *c.Quota, *c.Period, c.Burst, quota, period)
			}
		}
	}
	wantPids := func(want int64) func(*testing.T, Result) {
		return func(t *testing.T, r Result) {
			t.Helper()
			if got := *r.Spec.Linux.Resources.Pids.Limit; got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		}
	}
	noSwap := func(f *Facts) { f.NoSwapLimit = true }
	const denied = "linux.resources.unified: saw"
	runCases(t, strict, []outcome{
		{name: "memory, absent", check: wantMemory(specs.LinuxMemory{Limit: new(int64(gib)), Swap: new(int64(gib))})},
		{name: "memory, less", bundle: memory(specs.LinuxMemory{Limit: new(int64(5)), Swap: new(int64(9))}), check: wantMemory(specs.LinuxMemory{Limit: new(int64(5)), Swap: new(int64(5))})},
		{name: "memory, more", bundle: memory(specs.LinuxMemory{Limit: new(int64(2 * gib)), Swap: new(int64(-1))}), check: wantMemory(specs.LinuxMemory{Limit: new(int64(gib)), Swap: new(int64(gib))})},
		{name: "memory, unlimited", bundle: memory(specs.LinuxMemory{Limit: new(int64(-1))}), check: wantMemory(specs.LinuxMemory{Limit: new(int64(gib)), Swap: new(int64(gib))})},
		{name: "memory, no file for swap", facts: noSwap, bundle: memory(specs.LinuxMemory{Swap: new(int64(-1))}), check: wantMemory(specs.LinuxMemory{Limit: new(int64(gib))})},
		{name: "memory, reserved above the limit", bundle: memory(specs.LinuxMemory{Limit: new(int64(5)), Reservation: new(int64(6))}), check: wantMemory(specs.LinuxMemory{Limit: new(int64(5)), Swap: new(int64(5)), Reservation: new(int64(5))})},
		{name: "memory, reserved without end", bundle: memory(specs.LinuxMemory{Limit: new(int64(5)), Reservation: new(int64(-1))}), check: wantMemory(specs.LinuxMemory{Limit: new(int64(5)), Swap: new(int64(5)), Reservation: new(int64(5))})},
		{name: "memory of the kernel", bundle: memory(specs.LinuxMemory{Kernel: new(int64(5)), KernelTCP: new(int64(-1))}), check: func(t *testing.T, r Result) { //nolint:staticcheck // deprecated, and still sent
			wantMemory(specs.LinuxMemory{Limit: new(int64(gib)), Swap: new(int64(gib))})(t, r)
			wantChange(t, r, "linux.resources.memory.kernel", Dropped)
		}},
		{name: "no oom killer", bundle: memory(specs.LinuxMemory{DisableOOMKiller: new(true)}), denied: "linux.resources.memory.disableOOMKiller"},
		{name: "an oom killer, as Docker says", bundle: memory(specs.LinuxMemory{DisableOOMKiller: new(false)})},

		{name: "cpu, absent", check: wantCPU(100_000, 100_000)},
		{name: "cpu, less", bundle: cpu(specs.LinuxCPU{Quota: new(int64(25_000)), Period: new(uint64(50_000))}), check: wantCPU(25_000, 50_000)},
		{name: "cpu, more", bundle: cpu(specs.LinuxCPU{Quota: new(int64(51_000)), Period: new(uint64(50_000))}), check: wantCPU(100_000, 100_000)},
		{name: "cpu, unlimited", bundle: cpu(specs.LinuxCPU{Quota: new(int64(-1))}), check: wantCPU(100_000, 100_000)},
		{name: "cpu, a huge period", bundle: cpu(specs.LinuxCPU{Quota: new(int64(1 << 62)), Period: new(uint64(1 << 63))}), check: wantCPU(100_000, 100_000)},
		{name: "cpu, burst", bundle: cpu(specs.LinuxCPU{Burst: new(uint64(1))}), check: wantCPU(100_000, 100_000)},
		{name: "cpu, realtime", bundle: cpu(specs.LinuxCPU{RealtimeRuntime: new(int64(1))}), denied: "linux.resources.cpu.realtimeRuntime"},
		{name: "cpu, realtime of nothing, as nerdctl says", bundle: cpu(specs.LinuxCPU{RealtimeRuntime: new(int64(0)), RealtimePeriod: new(uint64(0))})},

		{name: "pids, absent", check: wantPids(64)},
		{name: "pids, less", bundle: pids(7), check: wantPids(7)},
		{name: "pids, as Podman says", bundle: pids(2048), check: wantPids(64)},
		{name: "pids, unlimited", bundle: pids(-1), check: wantPids(64)},
		{name: "pids, 0 is the fewest", bundle: pids(0), check: wantPids(1)},

		{name: "unified, less memory", bundle: unified("memory.max", "4096")},
		{name: "unified, more memory", bundle: unified("memory.max", "9999999999"), denied: denied},
		{name: "unified, all memory", bundle: unified("memory.max", "max"), denied: denied},
		{name: "unified, swap", bundle: unified("memory.swap.max", "1"), denied: denied},
		{name: "unified, no swap", bundle: unified("memory.swap.max", "0")},
		{name: "unified, a group of oom victims", bundle: unified("memory.oom.group", "1")},
		{name: "unified, more processes", bundle: unified("pids.max", "65"), denied: denied},
		{name: "unified, fewer processes", bundle: unified("pids.max", "64")},
		{name: "unified, more cpu", bundle: unified("cpu.max", "100001 100000"), denied: denied},
		{name: "unified, less cpu", bundle: unified("cpu.max", "10000 10000")},
		{name: "unified, all cpu", bundle: unified("cpu.max", "max 100000"), denied: denied},
		{name: "unified, cpu without a period", bundle: unified("cpu.max", "1000"), denied: denied},
		{name: "unified, more weight", bundle: unified("cpu.weight", "101"), denied: denied},
		{name: "unified, protected memory", bundle: unified("memory.min", "1"), denied: denied},
		{name: "unified, no protected memory, as kubelet says", bundle: unified("memory.low", "0")},
		{name: "unified, the tree", bundle: unified("cgroup.subtree_control", "+cpu"), denied: denied},
		{name: "unified, cpus of its own", bundle: unified("cpuset.cpus.partition", "root"), denied: denied},
		{name: "unified, huge pages", bundle: unified("hugetlb.2MB.max", "0")},
		{name: "unified, throttled", bundle: unified("memory.high", "4096")},
	})
}

// Proves: S-131, S-132, S-133, S-004.
func TestResourcesOfCgroupV2(t *testing.T) {
	v2 := func(f *Facts) { f.CgroupV2 = true }
	systemd := func(f *Facts) { f.CgroupV2, f.SystemdCgroup = true, true }
	noSwap := func(f *Facts) { f.CgroupV2, f.NoSwapLimit = true, true }
	unified := func(m map[string]string) func(*specs.Spec) { return resources(specs.LinuxResources{Unified: m}) }
	cpu := func(quota int64, period uint64) func(*specs.Spec) {
		return resources(specs.LinuxResources{CPU: &specs.LinuxCPU{Quota: &quota, Period: &period}})
	}
	unit := func(more func(*specs.Spec)) func(*specs.Spec) {
		return func(s *specs.Spec) { more(s); s.Linux.CgroupsPath = "user.slice:sage:c1" }
	}
	group := map[string]string{"memory.swap.max": "0", "memory.oom.group": "1"}
	wantUnified := func(want map[string]string) func(*testing.T, Result) {
		return func(t *testing.T, r Result) {
			t.Helper()
			if diff := cmp.Diff(r.Spec.Linux.Resources.Unified, want); diff != "" {
				t.Errorf("got, want: %s", diff)
			}
		}
	}
	wantFields := func(memory, swap, quota int64, period uint64, pids int64) func(*testing.T, Result) {
		return func(t *testing.T, r Result) {
			t.Helper()
			l := r.Spec.Linux.Resources
			got := []int64{*l.Memory.Limit, *l.Memory.Swap, *l.CPU.Quota, int64(*l.CPU.Period), *l.Pids.Limit}
			if diff := cmp.Diff(got, []int64{memory, swap, quota, int64(period), pids}); diff != "" {
				t.Errorf("got, want: %s", diff)
			}
		}
	}
	const mib = 1 << 20
	runCases(t, strict, []outcome{
		{name: "v1 has no such files", check: wantUnified(nil)},
		{name: "set by us", facts: v2, check: wantUnified(group)},
		{name: "set by the bundle too", facts: v2, bundle: unified(map[string]string{"memory.swap.max": "0", "memory.oom.group": "1"}), check: wantUnified(group)},
		{name: "a kernel without swap", facts: noSwap, check: wantUnified(map[string]string{"memory.oom.group": "1"})},
		{name: "the bundle wants no group", facts: v2, bundle: unified(map[string]string{"memory.oom.group": "0"}), denied: "memory.oom.group"},
		{
			name: "the bundle's raw limits", facts: v2,
			bundle: unified(map[string]string{"memory.max": "1048576", "pids.max": "9", "cpu.max": "5000 50000", "memory.high": "4096"}),
			check: func(t *testing.T, r Result) {
				wantUnified(map[string]string{"memory.swap.max": "0", "memory.oom.group": "1", "memory.high": "4096"})(t, r)
				wantFields(mib, mib, 5000, 50_000, 9)(t, r)
				wantChange(t, r, "linux.resources.unified.cpu.max", Dropped)
			},
		},
		{
			name: "the lower of two holds", facts: v2,
			bundle: resources(specs.LinuxResources{
				Memory: &specs.LinuxMemory{Limit: new(int64(4 * mib))}, Pids: &specs.LinuxPids{Limit: new(int64(5))},
				CPU:     &specs.LinuxCPU{Quota: new(int64(2000)), Period: new(uint64(100_000))},
				Unified: map[string]string{"memory.max": "1048576", "pids.max": "9", "cpu.max": "5000 50000"},
			}),
			check: wantFields(mib, mib, 2000, 100_000, 5),
		},
		{name: "systemd, whole", facts: systemd, check: wantFields(1024*mib, 1024*mib, 100_000, 100_000, 64)},
		{name: "systemd, rounded down", facts: systemd, bundle: cpu(25_999, 100_000), check: wantFields(1024*mib, 1024*mib, 25_000, 100_000, 64)},
		{name: "systemd, of another period", facts: systemd, bundle: cpu(333, 1001), check: wantFields(1024*mib, 1024*mib, 33_000, 100_000, 64)},
		{name: "systemd by the path", facts: v2, bundle: unit(cpu(1999, 100_000)), check: wantFields(1024*mib, 1024*mib, 1000, 100_000, 64)},
		{name: "systemd, less than it has", facts: systemd, bundle: cpu(999, 100_000), denied: "linux.resources.cpu.quota"},
		{name: "not systemd", facts: v2, bundle: cpu(25_999, 100_000), check: wantFields(1024*mib, 1024*mib, 25_999, 100_000, 64)},
	})
}

// Proves: S-005, S-131.
func TestHugePages(t *testing.T) {
	has := func(f *Facts) { f.CgroupV2, f.HugePages = true, []string{"2MB"} }
	closed := map[string]string{
		"memory.swap.max": "0", "memory.oom.group": "1", "hugetlb.2MB.max": "0", "hugetlb.2MB.rsvd.max": "0", "hugetlb.1GB.max": "5",
	}
	asks := resources(specs.LinuxResources{Unified: map[string]string{"hugetlb.2MB.max": "max", "hugetlb.1GB.max": "5"}})
	for _, hard := range []bool{true, false} {
		p := strict()
		p.Resources.RequireHardLimits = hard
		runCases(t, func() spec.Policy { return p }, []outcome{{name: "hard " + strconv.FormatBool(hard), facts: has, bundle: asks, check: func(t *testing.T, r Result) {
			if got := r.Spec.Linux.Resources.Unified; cmp.Equal(got, closed) != hard {
				t.Errorf("got %v", got)
			}
		}}})
	}
}

// Proves: S-131.
func TestFoldUnified(t *testing.T) {
	for name, c := range map[string]struct{ r, want specs.LinuxResources }{
		"nothing": {},
		"without fields": {
			specs.LinuxResources{Unified: map[string]string{"memory.max": " 5 ", "pids.max": "6", "cpu.max": "7 8", "memory.high": "1"}},
			specs.LinuxResources{
				Memory: &specs.LinuxMemory{Limit: new(int64(5)), Swap: new(int64(5))}, Pids: &specs.LinuxPids{Limit: new(int64(6))},
				CPU: &specs.LinuxCPU{Quota: new(int64(7)), Period: new(uint64(8))}, Unified: map[string]string{"memory.high": "1"},
			},
		},
		"what is no limit stays": {
			specs.LinuxResources{Unified: map[string]string{"memory.max": "max", "pids.max": "", "cpu.max": "max 8"}},
			specs.LinuxResources{Unified: map[string]string{"memory.max": "max", "pids.max": "", "cpu.max": "max 8"}},
		},
	} {
		FoldUnified(&c.r)
		if diff := cmp.Diff(c.r, c.want); diff != "" {
			t.Errorf("%s: got, want: %s", name, diff)
		}
	}
}

// Proves: S-020.
func TestTighter(t *testing.T) {
	now := func() *specs.LinuxResources {
		return &specs.LinuxResources{
			Memory:  &specs.LinuxMemory{Limit: new(int64(1000)), Swap: new(int64(1000))},
			CPU:     &specs.LinuxCPU{Quota: new(int64(50_000)), Period: new(uint64(100_000)), Cpus: "0-3", Shares: new(uint64(512)), Idle: new(int64(1))},
			Pids:    &specs.LinuxPids{Limit: new(int64(10))},
			BlockIO: &specs.LinuxBlockIO{Weight: new(uint16(50)), WeightDevice: []specs.LinuxWeightDevice{weight(8, 30)}, ThrottleReadBpsDevice: []specs.LinuxThrottleDevice{throttle(8, 100)}},
			Unified: map[string]string{"memory.high": "500", "cpuset.mems": "0"},
		}
	}
	memory := func(limit, swap int64) *specs.LinuxResources {
		return &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &limit, Swap: &swap}}
	}
	cpu := func(c specs.LinuxCPU) *specs.LinuxResources { return &specs.LinuxResources{CPU: &c} }
	io := func(b specs.LinuxBlockIO) *specs.LinuxResources { return &specs.LinuxResources{BlockIO: &b} }
	pids := func(n int64) *specs.LinuxResources {
		return &specs.LinuxResources{Pids: &specs.LinuxPids{Limit: &n}}
	}
	unified := func(key, value string) *specs.LinuxResources {
		return &specs.LinuxResources{Unified: map[string]string{key: value}}
	}
	for _, c := range []struct {
		name   string
		update *specs.LinuxResources
		denied string
	}{
		{"nothing", nil, ""},
		{"empty", &specs.LinuxResources{Memory: &specs.LinuxMemory{}, CPU: &specs.LinuxCPU{}, Pids: &specs.LinuxPids{}, BlockIO: &specs.LinuxBlockIO{}}, ""},
		{"the same", now(), ""},
		{"less memory", memory(500, 500), ""},
		{"0 is no change", memory(0, 0), ""},
		{"more memory", memory(2000, 0), "memory.limit: saw 2000, want at most 1000"},
		{"all memory", memory(-1, 0), "memory.limit: saw -1"},
		{"more swap", memory(0, 2000), "memory.swap: saw 2000"},
		{"all swap", memory(0, -1), "memory.swap: saw -1"},
		{"less memory, so more swap", memory(500, 0), "memory.swap: saw a limit of 500 without it"},
		{"less memory and some swap", memory(500, 600), "memory.swap: saw a limit of 500 without it"},
		{"a reservation", &specs.LinuxResources{Memory: &specs.LinuxMemory{Reservation: new(int64(900))}}, ""},
		{"a reservation above the limit", &specs.LinuxResources{Memory: &specs.LinuxMemory{Reservation: new(int64(1001))}}, "memory.reservation"},
		{"no oom killer", &specs.LinuxResources{Memory: &specs.LinuxMemory{DisableOOMKiller: new(true)}}, "disableOOMKiller"},
		{"less cpu", cpu(specs.LinuxCPU{Quota: new(int64(10_000)), Period: new(uint64(100_000))}), ""},
		{"the same share of another period", cpu(specs.LinuxCPU{Quota: new(int64(5_000)), Period: new(uint64(10_000))}), ""},
		{"more cpu", cpu(specs.LinuxCPU{Quota: new(int64(50_001)), Period: new(uint64(100_000))}), "cpu.quota: saw 50001 of every 100000"},
		{"more cpu by a shorter period", cpu(specs.LinuxCPU{Quota: new(int64(50_000)), Period: new(uint64(99_999))}), "cpu.quota"},
		{"all cpu", cpu(specs.LinuxCPU{Quota: new(int64(-1))}), "cpu.quota: saw -1"},
		{"a period alone, which lifts the quota", cpu(specs.LinuxCPU{Period: new(uint64(100_000))}), "want both values in one update"},
		{"fewer cpus", cpu(specs.LinuxCPU{Cpus: "1,3"}), ""},
		{"other cpus", cpu(specs.LinuxCPU{Cpus: "2-4"}), "cpu.cpus: saw \"2-4\""},
		{"cpus that are no list", cpu(specs.LinuxCPU{Cpus: "all"}), "cpu.cpus"},
		{"less weight", cpu(specs.LinuxCPU{Shares: new(uint64(100))}), ""},
		{"more weight", cpu(specs.LinuxCPU{Shares: new(uint64(513))}), "cpu.shares"},
		{"burst", cpu(specs.LinuxCPU{Burst: new(uint64(1))}), "cpu.burst"},
		{"no longer idle", cpu(specs.LinuxCPU{Idle: new(int64(0))}), "cpu.idle"},
		{"realtime", cpu(specs.LinuxCPU{RealtimePeriod: new(uint64(1))}), "realtime"},
		{"fewer processes", pids(5), ""},
		{"0 processes is the fewest", pids(0), ""},
		{"more processes", pids(11), "pids.limit: saw 11"},
		{"all processes", pids(-1), "pids.limit: saw -1"},
		{"slower disk", io(specs.LinuxBlockIO{ThrottleReadBpsDevice: []specs.LinuxThrottleDevice{throttle(8, 50)}}), ""},
		{"another slow disk", io(specs.LinuxBlockIO{ThrottleReadBpsDevice: []specs.LinuxThrottleDevice{throttle(9, 5000)}}), ""},
		{"faster disk", io(specs.LinuxBlockIO{ThrottleReadBpsDevice: []specs.LinuxThrottleDevice{throttle(8, 101)}}), "blockIO.throttleReadBpsDevice"},
		{"fast disk", io(specs.LinuxBlockIO{ThrottleReadBpsDevice: []specs.LinuxThrottleDevice{throttle(8, 0)}}), "blockIO.throttleReadBpsDevice"},
		{"less weight of the disk", io(specs.LinuxBlockIO{Weight: new(uint16(10))}), ""},
		{"more weight of the disk", io(specs.LinuxBlockIO{Weight: new(uint16(51))}), "blockIO.weight"},
		{"more weight of one disk", io(specs.LinuxBlockIO{WeightDevice: []specs.LinuxWeightDevice{{Weight: new(uint16(51))}}}), "blockIO.weightDevice"},
		{"more weight of a disk that has its own", io(specs.LinuxBlockIO{WeightDevice: []specs.LinuxWeightDevice{weight(8, 31)}}), "blockIO.weightDevice: saw 31, want at most 30"},
		{"unified, lower", unified("memory.high", "400"), ""},
		{"unified, higher", unified("memory.high", "600"), "unified: saw another value for \"memory.high\""},
		{"unified, without end", unified("memory.high", "max"), "unified: saw another value"},
		{"unified, above the limit", unified("memory.max", "1001"), "unified: saw \"memory.max\""},
		{"unified, another list", unified("cpuset.mems", "1"), "unified: saw another value"},
		{"unified, protected memory", unified("memory.low", "1"), "unified: saw \"memory.low\""},
		{"devices, as Kubernetes sends them", &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			current := now()
			err := Tighter(current, c.update)
			if c.denied != "" {
				outcome{denied: c.denied}.wantError(t, err)
			} else if err != nil {
				t.Errorf("got %v, want no error", err)
			}
			if diff := cmp.Diff(current, now()); diff != "" {
				t.Errorf("got the current limits changed: %s", diff)
			}
		})
	}
	if err := Tighter(nil, memory(5, 5)); err != nil {
		t.Errorf("got %v for the first limit of all, want no error", err)
	}
	if err := Tighter(nil, memory(-1, 0)); err == nil {
		t.Error("got no error for -1, want one even where there is no limit")
	}
}

func throttle(major int64, rate uint64) specs.LinuxThrottleDevice {
	d := specs.LinuxThrottleDevice{Rate: rate}
	d.Major = major
	return d
}

func weight(major int64, n uint16) specs.LinuxWeightDevice {
	d := specs.LinuxWeightDevice{Weight: &n}
	d.Major = major
	return d
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "64m": 64 << 20, "65536k": 64 << 20, "1G": 1 << 30, "0": 0, "": 0, "50%": 0, "-1": 0, "0x10": 0, "010": 0, "+5": 0,
		"9e": 0, "99999999999999999999": 0, "k": 0, "1kk": 0,
	} {
		if got := parseSize(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func TestLimitsOfNothing(t *testing.T) {
	// A policy without numbers, which no host makes, lifts nothing.
	s := bundle()
	resources(specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: new(int64(5)), Swap: new(int64(5))}, Pids: &specs.LinuxPids{Limit: new(int64(5))}})(s)
	p := strict()
	p.Resources = spec.Resources{}
	r, err := Apply(s, p, plainFacts(s))
	if err != nil {
		t.Fatal(err)
	}
	got := r.Spec.Linux.Resources
	if *got.Memory.Limit != 5 || *got.Memory.Swap != 5 || *got.Pids.Limit != 5 {
		t.Errorf("got %v %v, want the bundle's", got.Memory, got.Pids)
	}
}
