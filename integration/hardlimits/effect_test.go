//go:build vm

package hardlimits

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestCPU: two busy loops in a container, one of them by exec, have its share of
// one core together, within a tenth, and are held back for it.
//
// Proves: S-004.
func TestCPU(t *testing.T) { cpuHolds(t, cgroupfs) }

func cpuHolds(t *testing.T, d driver) {
	t.Helper()
	const percent, over = 30, 6 * time.Second
	r := d.runtime(t, hard)
	b := d.start(t, r, "while :; do :; done", limits(64, percent, 32))
	r.Must(t, "exec", "--detach", b.id, "sh", "-c", "while :; do :; done")
	before, since := b.counter("cpu.stat", "usage_usec"), time.Now()
	time.Sleep(over)
	used, passed := b.counter("cpu.stat", "usage_usec")-before, time.Since(since).Microseconds()
	share := float64(used) * 100 / float64(passed)
	t.Logf("%.1f %% of a core, granted %d %%; throttled in %d periods of %d", share, percent,
		b.counter("cpu.stat", "nr_throttled"), b.counter("cpu.stat", "nr_periods"))
	if share > percent*1.1 || share < percent*0.9 {
		t.Errorf("got %.1f %% of a core, want %d within a tenth", share, percent)
	}
	if b.counter("cpu.stat", "nr_throttled") == 0 {
		t.Error("got no period throttled, want most")
	}
}

// eat touches that many MiB of memory of its own.
func eat(mib int) string { return fmt.Sprintf("dd if=/dev/zero of=/dev/null bs=%dM count=1", mib) }

// TestMemory: what takes more than the limit ends, with everything else in the
// container, whoever of it took it; and nothing of it was in swap.
//
// Proves: S-005, S-132, S-133.
func TestMemory(t *testing.T) { memoryHolds(t, cgroupfs) }

func memoryHolds(t *testing.T, d driver) {
	t.Helper()
	r := d.runtime(t, hard)
	b := d.start(t, r, "sleep 1000 & sleep 1000", limits(64, 100, 32))
	if res := b.exec(eat(48) + " && echo within"); res.Code != 0 || res.Stdout != "within\n" {
		t.Errorf("48 MiB of 64: got %s, want them had", res)
	}
	res := b.exec(eat(256) + "; echo survived")
	if res.Code != 137 || strings.Contains(res.Stdout, "survived") {
		t.Errorf("256 MiB of 64: got %s, want the exec killed with all that it began", res)
	}
	harness.Eventually(t, "the container is dead as a whole", b.isEmpty)
	if status := status(t, r, b.id); status != "stopped" {
		t.Errorf("got the container %s, want it stopped", status)
	}
	if d.systemd {
		return // which has removed the cgroup with its last process
	}
	if kills := b.counter("memory.events", "oom_group_kill"); kills != 1 {
		t.Errorf("oom_group_kill: got %d, want 1", kills)
	}
	b.wantNoSwap()
}

// TestSwapIsThere is the control of TestMemory: without a policy the same program
// under the same limit goes on, by the swap that this guest has.
//
// Proves: S-132.
func TestSwapIsThere(t *testing.T) {
	r := harness.NewRuntime(t)
	id := harness.NewID()
	b := cgroupfs.bundle(t, id, eat(192)+" && echo survived", limits(64, 100, 32), func(s *specs.Spec) {
		s.Linux.Resources.Memory.Swap = new(int64(512 << 20))
	})
	if res := r.Run(t, "run", "--bundle", b.Dir, id); res.Stdout != "survived\n" {
		t.Errorf("got %s, want it to survive: where nothing goes to swap, no test shows that it does not", res)
	}
}

func (b *box) wantNoSwap() {
	b.t.Helper()
	for _, name := range []string{"memory.swap.current", "memory.swap.peak"} {
		data, err := os.ReadFile(filepath.Join(b.dir, name))
		if os.IsNotExist(err) && name == "memory.swap.peak" {
			continue // Linux 6.5 has it
		}
		check(b.t, err)
		if got := strings.TrimSpace(string(data)); got != "0" {
			b.t.Errorf("%s: got %s, want 0", name, got)
		}
	}
}

// bomb forks for ever: unlike a shell, awk does not end where it cannot.
const bomb = "for i in 1 2 3; do awk 'BEGIN { while (1) system(\"sleep 1000 &\") }' 2>/dev/null & done; exec sleep 1000"

// TestForkBomb stops at the number, and the host goes on. What is started in the
// container then is refused with a code, or counted like the rest; none of it
// runs outside (attacks.md 15).
//
// Proves: S-006, G-25.
func TestForkBomb(t *testing.T) { bombStops(t, cgroupfs) }

func bombStops(t *testing.T, d driver) {
	t.Helper()
	const most = 14
	r := d.runtime(t, hard)
	b := d.start(t, r, bomb, limits(128, 100, most))
	harness.Eventually(t, "the bomb meets the limit", func() bool { return b.counter("pids.events", "max") > 0 })
	for range 50 {
		if n := b.number("pids.current"); n > most {
			t.Fatalf("got %d processes, want %d at most", n, most)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := harness.Output(exec.Command("sh", "-c", "for i in 1 2 3; do (true) || exit 1; done")); err != nil {
		t.Errorf("the host: got %v, want it to fork as ever", err)
	}
	refusals := 0
	for range 6 {
		if res := b.exec("true"); res.Code != 0 {
			refused(t, res, "sandbox.resource_exhausted", "resources.max_processes", fmt.Sprint(most))
			refusals++
		}
		if n := b.number("pids.current"); n > most {
			t.Errorf("after an exec: got %d processes, want %d at most", n, most)
		}
	}
	if refusals == 0 {
		t.Error("got every exec started, want some refused: the bomb does not hold the limit")
	}
	t.Logf("%d of 6 execs refused", refusals)
	began := time.Now()
	r.Must(t, "delete", "--force", b.id)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("got the bomb deleted in %v, want it within 5 s", took)
	}
}

// TestExecNeeds: with few processes left, an exec runs, or is refused with the
// code: no dump of its own innards, nothing that stays behind. It logs how many
// it takes.
//
// Proves: S-006, G-25.
func TestExecNeeds(t *testing.T) {
	const most = 14
	r := cgroupfs.runtime(t, hard)
	b := cgroupfs.start(t, r, "exec sleep 1000", limits(128, 100, most))
	left := most - 1
	for _, next := range []int{most - 1, 10, 9, 8, 7, 6, 4, 2, 1, 0} {
		for ; left > next; left-- {
			b.occupyInside()
		}
		started := 0
		for range 2 {
			res := b.r.Run(t, "exec", b.id, "true")
			if res.Code == 0 {
				started++
				continue
			}
			refused(t, res, "sandbox.resource_exhausted", "resources.max_processes")
		}
		t.Logf("%d left: %d of 2 execs ran", left, started)
		if left >= 8 && started != 2 || left < 8 && started != 0 {
			t.Errorf("%d left: got %d of 2 execs run, want both with 8 left, and none with 7", left, started)
		}
		harness.Eventually(t, "the execs are gone", func() bool { return b.number("pids.current") == int64(most-left) })
	}
}

// occupyInside takes one process of the container's away, without an exec.
func (b *box) occupyInside() {
	b.t.Helper()
	cmd := sleeper()
	check(b.t, harness.StartCommand(cmd))
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = harness.WaitCommand(cmd)
	})
	join(b.t, b.dir, cmd.Process.Pid)
}

// TestExecCounted: an exec is in the container's cgroup from its first moment.
//
// Proves: S-006, S-008, S-135, G-25.
func TestExecCounted(t *testing.T) {
	r := cgroupfs.runtime(t, hard)
	b := cgroupfs.start(t, r, "sleep 1000", limits(64, 100, 32))
	before := b.number("pids.current")
	pidFile := filepath.Join(harness.TempDir(t), "pid")
	r.Must(t, "exec", "--detach", "--pid-file", pidFile, b.id, "sh", "-c", "setsid sleep 999 & exec sleep 999")
	var pid int
	_, err := fmt.Sscan(readText(t, pidFile), &pid)
	check(t, err)
	if got := groupOf(t, pid); got != b.dir {
		t.Errorf("the exec is in %s, want %s", got, b.dir)
	}
	harness.Eventually(t, "both are counted", func() bool { return b.number("pids.current") == before+2 })
	procs := len(strings.Fields(b.file("cgroup.procs")))
	if procs != 3 {
		t.Errorf("got %d processes in the cgroup, want 3", procs)
	}
}

// TestKilledWhole: what left its session and its parent is ended with the
// container by kill and by delete, from a cgroup that is frozen too.
//
// Proves: S-134, S-136, S-138.
func TestKilledWhole(t *testing.T) {
	for _, verb := range [][]string{{"kill", "", "KILL"}, {"delete", "--force", ""}} {
		t.Run(verb[0], func(t *testing.T) {
			r := cgroupfs.runtime(t, hard)
			b := cgroupfs.start(t, r, "(setsid sh -c '(sleep 999 <&- >&- 2>&- &) &' &); exec sleep 1000", limits(64, 100, 32))
			harness.Eventually(t, "three processes", func() bool { return b.number("pids.current") >= 2 })
			r.Must(t, "pause", b.id)
			args := append([]string{}, verb...)
			for i, a := range args {
				if a == "" {
					args[i] = b.id
				}
			}
			r.Must(t, args...)
			harness.Eventually(t, "nobody is left", b.isEmpty)
		})
	}
}

// isEmpty says whether nobody is in the cgroup, or it is gone.
func (b *box) isEmpty() bool {
	data, err := os.ReadFile(filepath.Join(b.dir, "cgroup.procs"))
	return os.IsNotExist(err) || errors.Is(err, unix.ENODEV) || err == nil && len(data) == 0
}
