package readback

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

const page = 4096

// granted is what a container is to have in these tests, as the engine says it.
func granted() *specs.LinuxResources {
	return &specs.LinuxResources{
		Memory: &specs.LinuxMemory{Limit: new(int64(64<<20 + 1)), Swap: new(int64(64<<20 + 1))},
		CPU:    &specs.LinuxCPU{Quota: new(int64(50_000)), Period: new(uint64(100_000))},
		Pids:   &specs.LinuxPids{Limit: new(int64(64))},
	}
}

// files are a cgroup's directory, as Linux 6.12 shows it when that is enforced;
// a change without text takes the file away.
func files(changes map[string]string) fstest.MapFS {
	text := map[string]string{
		"cgroup.type": "domain\n", "cgroup.kill": "", "cpu.max": "50000 100000\n", "cpu.max.burst": "0\n",
		"memory.max": "67108864\n", "memory.swap.max": "0\n", "memory.oom.group": "1\n", "pids.max": "64\n",
	}
	maps.Copy(text, changes)
	dir := fstest.MapFS{}
	for name, value := range text {
		if _, changed := changes[name]; !changed || value != "" {
			dir[name] = &fstest.MapFile{Data: []byte(value)}
		}
	}
	return dir
}

// check is the whole way: what is asked for, read, compared.
func check(dir fs.FS) error {
	got, err := Read(dir)
	if err != nil {
		return err
	}
	return Differences(Compare(Expected(granted(), page), got))
}

// Proves: S-131, S-132, S-133, S-134.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		want             string // "" for no error
	}{
		{"as granted", "cpu.max", "50000 100000\n", ""},
		{"a kernel without burst", "cpu.max.burst", "", ""},

		{"memory, another value", "memory.max", "67112960\n", "memory.max: saw 67112960, want 67108864"},
		{"memory, one page less", "memory.max", "67104768\n", "memory.max: saw 67104768"},
		{"memory, lifted", "memory.max", "max\n", "memory.max: saw max, want 67108864"},
		{"memory, no controller", "memory.max", "", "the controller memory is not enabled"},
		{"memory, empty", "memory.max", "\n", `memory.max: saw "", want a number or max`},
		{"memory, cut off", "memory.max", "67108864", "want one line"},
		{"memory, two lines", "memory.max", "67108864\nmax\n", "want one line"},
		{"memory, two values", "memory.max", "67108864 max\n", "want a number or max"},
		{"memory, negative", "memory.max", "-1\n", "want a number or max"},
		{"memory, hexadecimal", "memory.max", "0x4000000\n", "want a number or max"},
		{"memory, with a zero before", "memory.max", "067108864\n", "want a number or max"},
		{"memory, with a sign", "memory.max", "+67108864\n", "want a number or max"},
		{"memory, beyond 64 bits", "memory.max", "18446744073709551616\n", "want a number or max"},

		{"swap", "memory.swap.max", "4096\n", "memory.swap.max: saw 4096, want 0"},
		{"all swap", "memory.swap.max", "max\n", "memory.swap.max: saw max, want 0"},
		{"no swap file", "memory.swap.max", "", "the controller memory is not enabled"},
		{"no group", "memory.oom.group", "0\n", "memory.oom.group: saw 0, want 1"},
		{"an odd group", "memory.oom.group", "2\n", "want 0 or 1"},
		{"processes", "pids.max", "65\n", "pids.max: saw 65, want 64"},
		{"processes, lifted", "pids.max", "max\n", "pids.max: saw max, want 64"},
		{"processes, no controller", "pids.max", "", "the controller pids is not enabled"},

		{"cpu, more", "cpu.max", "50001 100000\n", "cpu.max: saw 50001 100000, want 50000 100000"},
		{"cpu, of a shorter period", "cpu.max", "50000 50000\n", "cpu.max: saw 50000 50000"},
		{"cpu, the same share otherwise", "cpu.max", "25000 50000\n", "cpu.max: saw 25000 50000"},
		{"cpu, lifted", "cpu.max", "max 100000\n", "cpu.max: saw max 100000"},
		{"cpu, no period", "cpu.max", "50000\n", "want a number or max"},
		{"cpu, no controller", "cpu.max", "", "the controller cpu is not enabled"},
		{"cpu, burst", "cpu.max.burst", "1\n", "cpu.max.burst: saw 1, want 0"},
		{"cpu, odd burst", "cpu.max.burst", "x\n", "want a number or max"},

		{"threaded", "cgroup.type", "threaded\n", `cgroup.type: saw "threaded"`},
		{"no kill", "cgroup.kill", "", "cgroup.kill"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := check(files(map[string]string{c.file: c.text}))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if err := check(fstest.MapFS{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cgroup that is gone: got %v, want fs.ErrNotExist", err)
	}
}

// Proves: S-131.
func TestExpected(t *testing.T) {
	none := Limits{CPUQuota: Unlimited, CPUPeriod: 100_000, MemoryBytes: Unlimited, OOMGroup: true, Processes: Unlimited}
	with := func(change func(*Limits)) Limits {
		l := none
		change(&l)
		return l
	}
	memory := func(n int64) *specs.LinuxResources {
		return &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &n}}
	}
	for _, c := range []struct {
		name string
		r    *specs.LinuxResources
		page int64
		want Limits
	}{
		{"nothing", &specs.LinuxResources{}, page, none},
		{"zeros", &specs.LinuxResources{CPU: &specs.LinuxCPU{Quota: new(int64(0)), Period: new(uint64(0))}, Memory: &specs.LinuxMemory{Limit: new(int64(0))}, Pids: &specs.LinuxPids{}}, page, none},
		{"lifted", memory(-1), page, none},
		{"whole pages", memory(8192), page, with(func(l *Limits) { l.MemoryBytes = 8192 })},
		{"rounded down", memory(8191), page, with(func(l *Limits) { l.MemoryBytes = 4096 })},
		{"large pages", memory(1<<20 + 8192), 64 << 10, with(func(l *Limits) { l.MemoryBytes = 1 << 20 })},
		{"less than a page", memory(1), page, with(func(l *Limits) { l.MemoryBytes = 0 })},
		{"all", granted(), page, Limits{50_000, 100_000, 0, 64 << 20, 0, true, 64}},
	} {
		if diff := cmp.Diff(c.want, Expected(c.r, c.page)); diff != "" {
			t.Errorf("%s (-want +got): %s", c.name, diff)
		}
	}
	if err := none.Complete(); err == nil || !strings.Contains(err.Error(), "cpu.max: saw no limit") {
		t.Errorf("got %v for no limits, want an error", err)
	}
	if err := Expected(granted(), page).Complete(); err != nil {
		t.Errorf("got %v for all limits, want none", err)
	}
}

// Proves: S-131.
func TestCompareUnit(t *testing.T) {
	unit := func(change Properties) Properties {
		p := Properties{"CPUQuotaPerSecUSec": uint64(500_000), "MemoryMax": uint64(64<<20 + 1), "MemorySwapMax": uint64(0), "TasksMax": uint64(64)}
		maps.Copy(p, change)
		return p
	}
	const infinity = uint64(math.MaxUint64)
	for _, c := range []struct {
		name string
		unit Properties
		want string
	}{
		{"as granted", unit(nil), ""},
		{"cpu rounded up", unit(Properties{"CPUQuotaPerSecUSec": uint64(510_000)}), "CPUQuotaPerSecUSec: saw 510000, want 500000"},
		{"cpu without end", unit(Properties{"CPUQuotaPerSecUSec": infinity}), "CPUQuotaPerSecUSec: saw max"},
		{"a page more memory", unit(Properties{"MemoryMax": uint64(64<<20 + page)}), "MemoryMax: saw 67112960"},
		{"memory without end", unit(Properties{"MemoryMax": infinity}), "MemoryMax: saw max"},
		{"swap without end", unit(Properties{"MemorySwapMax": infinity}), "MemorySwapMax: saw max, want 0"},
		{"more processes", unit(Properties{"TasksMax": uint64(65)}), "TasksMax: saw 65, want 64"},
		{"not asked for", Properties{}, "CPUQuotaPerSecUSec: saw none"},
		{"of another type", unit(Properties{"TasksMax": "64"}), "TasksMax: saw none"},
	} {
		err := Differences(CompareUnit(Expected(granted(), page), c.unit, page))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// Proves: S-131, S-005.
func TestHugePages(t *testing.T) {
	dir := files(map[string]string{"hugetlb.2MB.max": "0\n", "hugetlb.2MB.rsvd.max": "max\n"})
	lines, err := HugePages(dir, map[string]string{"hugetlb.2MB.rsvd.max": "0", "hugetlb.2MB.max": "0", "memory.high": "7"})
	want := []Line{{"hugetlb.2MB.max", "0", "0"}, {"hugetlb.2MB.rsvd.max", "0", "max"}}
	if diff := cmp.Diff(want, lines); err != nil || diff != "" {
		t.Errorf("got %v (-want +got): %s", err, diff)
	}
	if _, err := HugePages(dir, map[string]string{"hugetlb.1GB.max": "0"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v for a file that is not there, want fs.ErrNotExist", err)
	}
}

// Proves: S-130.
func TestAbove(t *testing.T) {
	tree := func(files map[string]string) fs.FS {
		root := fstest.MapFS{}
		for name, text := range files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		return root
	}
	own := Expected(granted(), page)
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []Lower
	}{
		{"nothing limits", map[string]string{"a/memory.max": "max\n", "a/cpu.max": "max 100000\n", "a/pids.max": "max\n"}, nil},
		{"the container itself", map[string]string{"a/b/c/memory.max": "1\n"}, nil},
		{"more", map[string]string{"a/memory.max": "99999999\n", "a/cpu.max": "60000 100000\n", "a/pids.max": "65\n"}, nil},
		{"the same", map[string]string{"a/memory.max": "67108864\n", "a/cpu.max": "25000 50000\n", "a/pids.max": "64\n"}, nil},
		{"less, near and far", map[string]string{
			"a/memory.max": "4096\n", "a/b/cpu.max": "49999 100000\n", "a/b/pids.max": "9\n",
		}, []Lower{{"/a/b", "cpu.max", "49999 100000"}, {"/a/b", "pids.max", "9"}, {"/a", "memory.max", "4096"}}},
	} {
		got, err := Above(tree(c.files), "/a/b/c", own)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: got %v (-want +got): %s", c.name, err, diff)
		}
	}
	for _, name := range []string{"/", "", ".", "/c", "c", "/../c"} {
		if got, err := Above(tree(map[string]string{"memory.max": "1\n"}), name, own); err != nil || got != nil {
			t.Errorf("%q: got %v, %v, want nothing above it", name, got, err)
		}
	}
	if _, err := Above(tree(map[string]string{"a/memory.max": "?\n"}), "/a/c", own); err == nil || !strings.Contains(err.Error(), "/a/memory.max") {
		t.Errorf("got %v, want an error that names /a/memory.max", err)
	}
}

// FuzzRead: whatever the files hold, what passes the comparison is exactly what
// was asked for.
func FuzzRead(f *testing.F) {
	f.Add("50000 100000\n", "67108864\n", "64\n")
	f.Add("max 100000\n", "max\n", "max\n")
	f.Add("050000 100000\n", "67108864\n\n", "64")
	f.Fuzz(func(t *testing.T, cpu, memory, pids string) {
		same := cpu == "50000 100000\n" && memory == "67108864\n" && pids == "64\n"
		err := check(files(map[string]string{"cpu.max": cpu, "memory.max": memory, "pids.max": pids}))
		if (err == nil) != same {
			t.Errorf("got %v for %q, %q, %q", err, cpu, memory, pids)
		}
	})
}
