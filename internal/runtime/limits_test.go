package runtime

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/quota/readback"
	"github.com/sage-sandbox/sage/spec"
)

// TestKeep: after an update the record says what the files then hold, whichever
// way it was said.
//
// Proves: S-131.
func TestKeep(t *testing.T) {
	now := func(systemd bool) *cgroups.Cgroup {
		return &cgroups.Cgroup{Systemd: systemd, Resources: &cgroups.Resources{
			Memory: 1 << 20, MemorySwap: 1 << 20, CpuQuota: 50_000, CpuPeriod: 100_000, PidsLimit: new(int64(9)),
			Unified: map[string]string{"memory.swap.max": "0", "memory.oom.group": "1", "memory.high": "9"},
		}}
	}
	recorded := func(systemd bool, r specs.LinuxResources) (*cgroups.Resources, error) {
		group := now(systemd)
		u := Update{Resources: r}
		if err := u.keep(group); err != nil {
			return nil, err
		}
		setCPU(group.Resources, u.Resources.CPU)
		setMemory(group.Resources, u.Resources.Memory)
		if u.Resources.Pids != nil {
			group.PidsLimit = u.Resources.Pids.Limit
		}
		group.Unified = u.Resources.Unified
		return group.Resources, nil
	}
	raw := map[string]string{"memory.swap.max": "0", "memory.oom.group": "1", "memory.high": "9"}
	for _, c := range []struct {
		name    string
		systemd bool
		update  specs.LinuxResources
		want    cgroups.Resources
	}{
		{"nothing", false, specs.LinuxResources{}, cgroups.Resources{Memory: 1 << 20, MemorySwap: 1 << 20, CpuQuota: 50_000, CpuPeriod: 100_000, PidsLimit: new(int64(9)), Unified: raw}},
		{
			"fields", false,
			specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: new(int64(8192)), Swap: new(int64(8192))}, Pids: &specs.LinuxPids{Limit: new(int64(5))}},
			cgroups.Resources{Memory: 8192, MemorySwap: 8192, CpuQuota: 50_000, CpuPeriod: 100_000, PidsLimit: new(int64(5)), Unified: raw},
		},
		{
			"raw files", false,
			specs.LinuxResources{Unified: map[string]string{"memory.max": "8192", "pids.max": "5", "cpu.max": "1000 50000", "memory.high": "3"}},
			cgroups.Resources{Memory: 8192, MemorySwap: 8192, CpuQuota: 1000, CpuPeriod: 50_000, PidsLimit: new(int64(5)), Unified: map[string]string{"memory.swap.max": "0", "memory.oom.group": "1", "memory.high": "3"}},
		},
		{
			"blocks without values, as the command line sends them", false,
			specs.LinuxResources{Memory: &specs.LinuxMemory{}, CPU: &specs.LinuxCPU{}, Pids: &specs.LinuxPids{}},
			cgroups.Resources{Memory: 1 << 20, MemorySwap: 1 << 20, CpuQuota: 50_000, CpuPeriod: 100_000, PidsLimit: new(int64(9)), Unified: raw},
		},
		{
			"systemd", true,
			specs.LinuxResources{CPU: &specs.LinuxCPU{Quota: new(int64(9_999)), Period: new(uint64(50_000))}},
			cgroups.Resources{Memory: 1 << 20, MemorySwap: 1 << 20, CpuQuota: 19_000, CpuPeriod: 100_000, PidsLimit: new(int64(9)), Unified: raw},
		},
	} {
		got, err := recorded(c.systemd, c.update)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(&c.want, got); diff != "" {
			t.Errorf("%s: (-want +got) %s", c.name, diff)
		}
	}
	_, err := recorded(true, specs.LinuxResources{CPU: &specs.LinuxCPU{Quota: new(int64(999)), Period: new(uint64(100_000))}})
	if errcode.Of(err) != errcode.PermissionDenied {
		t.Errorf("less than systemd keeps: got %v, want it refused", err)
	}
}

// Proves: S-130.
func TestCgroupToBe(t *testing.T) {
	own, err := cgroups.ParseCgroupFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join("/sys/fs/cgroup", filepath.Dir("/"+own[""]))
	for _, c := range []struct {
		path string
		flag bool
		want cgroupPlace
	}{
		{"", false, cgroupPlace{filepath.Join(beside, "c1"), false}},
		{"a/b", false, cgroupPlace{filepath.Join(beside, "a/b"), false}},
		{"/a/b", false, cgroupPlace{"/sys/fs/cgroup/a/b", false}},
		{"/../../etc", false, cgroupPlace{"/sys/fs/cgroup/etc", false}},
		{"a-b.slice:x:c1", false, cgroupPlace{"/sys/fs/cgroup/a.slice/a-b.slice/c1.scope", true}},
		{":x:c1", false, cgroupPlace{"/sys/fs/cgroup/system.slice/c1.scope", true}},
		{"-:x:c1", true, cgroupPlace{"/sys/fs/cgroup/c1.scope", true}},
		{"", true, cgroupPlace{"/sys/fs/cgroup/system.slice/c1.scope", true}},
	} {
		l := &Launch{ID: "c1", Host: &Host{SystemdCgroup: c.flag}}
		got := l.cgroupToBe(&specs.Spec{Linux: &specs.Linux{CgroupsPath: c.path}})
		if got != c.want {
			t.Errorf("%q: got %+v, want %+v", c.path, got, c.want)
		}
		in := filepath.Dir(c.want.dir)
		if c.want.systemd {
			in = "/sys/fs/cgroup"
		}
		if got.in() != in {
			t.Errorf("%q: got it made in %s, want %s", c.path, got.in(), in)
		}
	}
}

// Proves: S-131, S-138.
func TestExplainLimits(t *testing.T) {
	hard := &admission{record: state.Record{Policy: spec.Policy{Resources: spec.Resources{RequireHardLimits: true}}}}
	for text, want := range map[string]errcode.Code{
		"unable to start container process: unable to apply cgroup configuration: mkdir: read-only": errcode.EnforcementFailed,
		"error setting cgroup config for procHooks process: write memory.max: permission denied":    errcode.EnforcementFailed,
		"exec: no such file": "",
	} {
		if got := errcode.Of(hard.explainLimits(errors.New(text))); got != want {
			t.Errorf("%q: got code %q, want %q", text, got, want)
		}
		if got := errcode.Of((&admission{}).explainLimits(errors.New(text))); got != "" {
			t.Errorf("%q without hard limits: got code %q, want none", text, got)
		}
	}
	if err := hard.explainLimits(nil); err != nil {
		t.Errorf("got %v for no error", err)
	}
}

// Proves: S-006.
func TestRefusedForks(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]int64{"max 7\n": 7, "max 0\n": 0, "local 3\nmax 12\n": 12, "": 0, "maximal 3\n": 0, "max x\n": 0} {
		if err := os.WriteFile(filepath.Join(dir, "pids.events"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := refusedForks(dir); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
	if got := refusedForks("/nonexistent"); got != 0 {
		t.Errorf("got %d for no file, want 0", got)
	}
	for text, want := range map[string]int64{"64\n": 64, "max\n": 0, "": 0} {
		if err := os.WriteFile(filepath.Join(dir, "pids.max"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := count(dir, "pids.max"); got != want {
			t.Errorf("pids.max %q: got %d, want %d", text, got, want)
		}
	}
}

// TestLimitedNeedsAll: what has no limit cannot be read back as one.
//
// Proves: S-131.
func TestLimitedNeedsAll(t *testing.T) {
	g := limited{dir: "/sys/fs/cgroup", pid: os.Getpid(), want: readback.Expected(&specs.LinuxResources{}, 4096)}
	if _, err := g.check(); errcode.Of(err) != errcode.EnforcementFailed || !strings.Contains(err.Error(), "saw no limit") {
		t.Errorf("got %v, want no limit refused", err)
	}
}

// TestGroupDir: what is not there is told from what cannot be read.
func TestGroupDir(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("9", 1000) + "\n"
	for name, text := range map[string]string{"short": "max\n", "long": long, "empty": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("short", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	d, err := openGroup(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for name, want := range map[string]string{"short": "max\n", "long": long[:256], "empty": ""} {
		if got, err := fs.ReadFile(d, name); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if _, err := fs.ReadFile(d, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: got %v, want fs.ErrNotExist", err)
	}
	if _, err := fs.ReadFile(d, "link"); err == nil {
		t.Error("link: got no error, want one")
	}
	if _, err := fs.Stat(d, "short"); err != nil {
		t.Errorf("stat: %v", err)
	}
	if _, err := fs.Stat(d, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat none: got %v, want fs.ErrNotExist", err)
	}
	if _, err := openGroup(filepath.Join(dir, "short")); err == nil {
		t.Error("a file: got no error, want one")
	}
}

// Proves: S-005.
func TestHugePages(t *testing.T) {
	dir := t.TempDir()
	for pool, files := range map[string][2]string{
		"hugepages-64kB": {"1\n", "0\n"}, "hugepages-2048kB": {"0\n", "0\n"}, "hugepages-32768kB": {"0\n", "3\n"}, "hugepages-1048576kB": {"7\n", "0\n"}, "other": {"1\n", "1\n"},
	} {
		if err := os.Mkdir(filepath.Join(dir, pool), 0o755); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"nr_hugepages", "nr_overcommit_hugepages"} {
			if err := os.WriteFile(filepath.Join(dir, pool, name), []byte(files[i]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff([]string{"1GB", "32MB", "64KB"}, hugePages(dir)); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
	if got := hugePages("/nonexistent"); got != nil {
		t.Errorf("got %v, want none", got)
	}
}
