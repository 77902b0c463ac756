//go:build vm

package hardlimits

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

// held is what the profile sage gives, as the kernel shows it.
var held = map[string]string{
	"cpu.max": "100000 100000", "memory.max": "1073741824", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "64",
}

// TestHeld: the limits are there between create and start, after the start,
// and for an exec; attest shows each, and the audit has them as read back.
//
// Proves: S-003, S-131, S-132, S-133, S-134.
func TestHeld(t *testing.T) { limitsHold(t, cgroupfs) }

func limitsHold(t *testing.T, d driver) {
	t.Helper()
	audit := harness.TempDir(t)
	r := d.runtime(t, hard+"audit_dir: "+audit+"\n")
	b := d.create(t, r)
	b.wantFiles(held)
	r.Must(t, "start", b.id)
	b.wantFiles(held)
	if res := b.exec("true"); res.Code != 0 {
		t.Errorf("exec: %s", res)
	}
	a := b.attest()
	if !a.OK {
		t.Errorf("attest: got %+v, want all of it ok", a)
	}
	for name, want := range held {
		if got, ok := a.line(t, name); got != want || !ok {
			t.Errorf("attest: %s is %s, %t; want %s and ok", name, got, ok, want)
		}
	}
	log := readText(t, filepath.Join(audit, b.id+".jsonl"))
	if want := `"limits":{"cpu_quota_us":100000,"cpu_period_us":100000,"cpu_burst_us":0,"memory_bytes":1073741824,"swap_bytes":0,"oom_group":true,"processes":64}`; !strings.Contains(log, want) {
		t.Errorf("audit: got %s, want it to hold %s", log, want)
	}
}

func (b *box) wantFiles(want map[string]string) {
	b.t.Helper()
	for name, text := range want {
		if got := b.file(name); got != text {
			b.t.Errorf("%s: got %s, want %s", name, got, text)
		}
	}
}

// TestLess: a bundle may ask for less, in fields or in raw files, and memory is
// counted in pages.
//
// Proves: S-004, S-005, S-006, S-131.
func TestLess(t *testing.T) {
	r := cgroupfs.runtime(t, hard)
	b := cgroupfs.create(t, r, limits(64, 25, 9), memory(64<<20+1), raw("pids.max", "8"), raw("cpu.max", "10000 50000"))
	b.wantFiles(map[string]string{
		"cpu.max": "10000 50000", "memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "8",
	})
	r.Must(t, "start", b.id)
	if a := b.attest(); !a.OK {
		t.Errorf("attest: got %+v, want all of it ok", a)
	}
}

// TestAbove: a cgroup above with less is no error, and is told.
//
// Proves: S-130.
func TestAbove(t *testing.T) {
	slice := group(t, "", map[string]string{"memory.max": strconv.Itoa(32 << 20), "pids.max": "20"})
	audit := harness.TempDir(t)
	r := cgroupfs.runtime(t, hard+"audit_dir: "+audit+"\n")
	b := cgroupfs.start(t, r, "sleep 1000", at("/"+slice+"/"+harness.NewID()))
	b.wantFiles(held)
	log := readText(t, filepath.Join(audit, b.id+".jsonl"))
	if want := `"above":[{"cgroup":"/` + slice + `","file":"memory.max","limit":"33554432"},{"cgroup":"/` + slice + `","file":"pids.max","limit":"20"}]`; !strings.Contains(log, want) {
		t.Errorf("audit: got %s, want it to hold %s", log, want)
	}
	if got, ok := b.attest().line(t, "memory.max of /"+slice); got != "33554432" || !ok {
		t.Errorf("attest: got %s, %t, want 33554432 and ok", got, ok)
	}
}
