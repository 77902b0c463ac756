//go:build vm

package hardlimits

import (
	"maps"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// The tests of this file run in a guest of their own, whose init is systemd.

// Proves: S-003, S-131, S-132, S-133.
func TestSystemdHeld(t *testing.T) { limitsHold(t, systemd) }

// Proves: S-004.
func TestSystemdCPU(t *testing.T) { cpuHolds(t, systemd) }

// Proves: S-005, S-132, S-133.
func TestSystemdMemory(t *testing.T) { memoryHolds(t, systemd) }

// Proves: S-006, G-25.
func TestSystemdForkBomb(t *testing.T) { bombStops(t, systemd) }

// Proves: S-020, S-131.
func TestSystemdUpdate(t *testing.T) { updateHolds(t, systemd) }

func unit(b *box) string { return "sage-" + b.id + ".scope" }

func systemctl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := harness.Output(exec.Command("systemctl", args...))
	check(t, err)
	return strings.TrimSpace(out)
}

// wantProperties compares what systemd would write again.
func wantProperties(t *testing.T, b *box, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := systemctl(t, "show", "--property", name, "--value", unit(b)); got != value {
			t.Errorf("%s: got %s, want %s", name, got, value)
		}
	}
}

// TestSystemdReload: systemd writes what it believes when it reloads, so the
// limits are its properties too, and are there afterwards, after an update as
// well.
//
// Proves: S-131, S-132.
func TestSystemdReload(t *testing.T) {
	r := systemd.runtime(t, hard)
	b := systemd.create(t, r, limits(64, 25, 32))
	files := map[string]string{"cpu.max": "25000 100000", "memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "32"}
	properties := map[string]string{"CPUQuotaPerSecUSec": "250ms", "MemoryMax": "67108864", "MemorySwapMax": "0", "TasksMax": "32"}
	wantProperties(t, b, properties)
	// Before version 253 systemd takes the group of victims for none of its own,
	// and sage gives it back with the next start or exec.
	reload := func() {
		t.Helper()
		systemctl(t, "daemon-reload")
		kept := maps.Clone(files)
		delete(kept, "memory.oom.group")
		b.wantFiles(kept)
		t.Logf("after a reload memory.oom.group is %s", b.file("memory.oom.group"))
		if a := b.attest(); a.OK != (b.file("memory.oom.group") == "1") {
			t.Errorf("attest: got %+v, want it to be ok where memory.oom.group is 1", a)
		}
	}
	reload()
	r.Must(t, "start", b.id)
	b.wantFiles(files)
	reload()
	if res := b.exec("true"); res.Code != 0 {
		t.Errorf("exec: got %s, want it to go on", res)
	}
	b.wantFiles(files)
	wantProperties(t, b, properties)
	if res := b.update(specs.LinuxResources{Pids: &specs.LinuxPids{Limit: new(int64(16))}, CPU: &specs.LinuxCPU{Quota: new(int64(20_999)), Period: new(uint64(100_000))}}); res.Code != 0 {
		t.Fatalf("update: %s", res)
	}
	files["cpu.max"], files["pids.max"] = "20000 100000", "16"
	b.wantFiles(files)
	reload()
	if res := b.exec("true"); res.Code != 0 || !b.attest().OK {
		t.Errorf("after the reload: got %s, want it to go on", res)
	}
}

// TestSystemdWhole: a share that systemd cannot keep is rounded down, never up.
//
// Proves: S-004, S-131.
func TestSystemdWhole(t *testing.T) {
	r := systemd.runtime(t, hard)
	b := systemd.create(t, r, limits(64, 25, 32), func(s *specs.Spec) {
		s.Linux.Resources.CPU = &specs.LinuxCPU{Quota: new(int64(12_999)), Period: new(uint64(50_000))}
	})
	b.wantFiles(map[string]string{"cpu.max": "25000 100000"})
	wantProperties(t, b, map[string]string{"CPUQuotaPerSecUSec": "250ms"})
}

// TestSystemdWriter: a property that somebody lifted stops the start, though the
// file is still as it was written.
//
// Proves: S-131.
func TestSystemdWriter(t *testing.T) {
	for name, c := range map[string]struct{ property, file string }{
		"MemoryMax": {"MemoryMax=infinity", "memory.max"}, "MemorySwapMax": {"MemorySwapMax=infinity", "memory.swap.max"},
		"TasksMax": {"TasksMax=infinity", "pids.max"}, "CPUQuotaPerSecUSec": {"CPUQuota=", "cpu.max"},
	} {
		t.Run(name, func(t *testing.T) {
			r := systemd.runtime(t, hard)
			b := systemd.create(t, r)
			systemctl(t, "set-property", "--runtime", unit(b), c.property)
			b.restore(c.file)
			refused(t, r.Run(t, "start", b.id), "sandbox.enforcement_failed", name+": saw max")
			if a := b.attest(); a.OK {
				t.Error("got attest ok, want it not")
			} else if _, ok := a.line(t, name); ok {
				t.Errorf("got the line %s ok, want it not", name)
			}
		})
	}
}

// TestSystemdFlag: the driver by the global option, with no cgroupsPath.
//
// Proves: S-131.
func TestSystemdFlag(t *testing.T) {
	r := systemd.runtime(t, hard)
	r.Global = []string{"--systemd-cgroup"}
	id := harness.NewID()
	r.Must(t, "run", "--detach", "--bundle", systemd.bundle(t, id, "sleep 1000", at("")).Dir, id)
	b := find(t, r, id)
	b.wantFiles(held)
	if got := systemctl(t, "show", "--property", "MemoryMax", "--value", "runc-"+id+".scope"); got != strconv.Itoa(1<<30) {
		t.Errorf("MemoryMax: got %s, want %d", got, 1<<30)
	}
	if a := b.attest(); !a.OK {
		t.Errorf("attest: got %+v, want it ok", a)
	}
}
