//go:build vm

package hardlimits

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

func sleeper() *exec.Cmd { return exec.Command("sleep", "1000") }

func join(t *testing.T, dir string, pid int) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, pid), 0))
}

func status(t *testing.T, r *harness.Runtime, id string) string {
	t.Helper()
	var state specs.State
	check(t, json.Unmarshal([]byte(r.Must(t, "state", id).Stdout), &state))
	return string(state.Status)
}

// update gives the limits as engines do.
func (b *box) update(resources specs.LinuxResources) harness.Result {
	b.t.Helper()
	data, err := json.Marshal(resources)
	check(b.t, err)
	file := filepath.Join(harness.TempDir(b.t), "resources.json")
	check(b.t, os.WriteFile(file, data, 0o644))
	return b.r.Run(b.t, "update", "--resources", file, b.id)
}

// TestUpdate: an update tightens, in fields or in raw files, and what it wrote is
// what is read back from then on.
//
// Proves: S-020, S-131.
func TestUpdate(t *testing.T) { updateHolds(t, cgroupfs) }

func updateHolds(t *testing.T, d driver) {
	t.Helper()
	r := d.runtime(t, hard)
	b := d.start(t, r, "sleep 1000", limits(64, 50, 32))
	want := func(memory, cpu, pids string) {
		t.Helper()
		b.wantFiles(map[string]string{"memory.max": memory, "cpu.max": cpu, "pids.max": pids, "memory.swap.max": "0", "memory.oom.group": "1"})
		if res := b.exec("true"); res.Code != 0 {
			t.Errorf("exec: got %s, want it to go on", res)
		}
		if a := b.attest(); !a.OK {
			t.Errorf("attest: got %+v, want it ok", a)
		}
	}
	tighten := func(resources specs.LinuxResources) {
		t.Helper()
		if res := b.update(resources); res.Code != 0 {
			t.Fatalf("update: %s", res)
		}
	}
	const mib = 1 << 20
	tighten(specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: new(int64(48*mib + 1)), Swap: new(int64(48*mib + 1))}})
	want("50331648", "50000 100000", "32")
	tighten(specs.LinuxResources{CPU: &specs.LinuxCPU{Quota: new(int64(40_000)), Period: new(uint64(100_000))}, Pids: &specs.LinuxPids{Limit: new(int64(24))}})
	want("50331648", "40000 100000", "24")
	tighten(specs.LinuxResources{Unified: map[string]string{"memory.max": "41943040", "pids.max": "20", "cpu.max": "30000 100000"}})
	want("41943040", "30000 100000", "20")
	for name, more := range map[string]specs.LinuxResources{
		"memory.limit":    {Memory: &specs.LinuxMemory{Limit: new(int64(42 * mib)), Swap: new(int64(42 * mib))}},
		"pids.limit":      {Pids: &specs.LinuxPids{Limit: new(int64(21))}},
		"cpu.quota":       {CPU: &specs.LinuxCPU{Quota: new(int64(30_001)), Period: new(uint64(100_000))}},
		"memory.max":      {Unified: map[string]string{"memory.max": "max"}},
		"memory.swap.max": {Unified: map[string]string{"memory.swap.max": "1"}},
		"pids.max":        {Unified: map[string]string{"pids.max": "21"}},
	} {
		refused(t, b.update(more), "sandbox.permission_denied", name)
	}
	want("41943040", "30000 100000", "20")
	b.write("memory.max", "50331648") // what once was right
	refused(t, b.exec("true"), "sandbox.enforcement_failed", "memory.max: saw 50331648, want 41943040")
}
