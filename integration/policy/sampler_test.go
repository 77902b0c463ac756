//go:build kernel

package policy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestSampledDisk: what a container allocates counts, in whatever way, and what
// only looks large does not.
//
// Proves: S-150, S-154, G-17.
func TestSampledDisk(t *testing.T) {
	fill := "dd if=/dev/zero bs=1M count=%d of=/work/%s 2>/dev/null; "
	for name, tt := range map[string]struct{ script, detail string }{
		"one after the other": {fmt.Sprintf(fill, 6, "a") + fmt.Sprintf(fill, 6, "b") + "sleep 30", "disk"},
		"many at once":        {"for i in 1 2 3 4 5 6 7 8; do " + strings.TrimSuffix(fmt.Sprintf(fill, 7, "$i"), "; ") + " & done; wait; sleep 30", "disk"},
		"open and unlinked":   {"exec 3>/work/a 4>/work/b; rm /work/a /work/b; dd if=/dev/zero bs=1M count=6 >&3; dd if=/dev/zero bs=1M count=6 >&4; sleep 30", "disk"},
		"small files":         {"i=0; while [ $i -lt 2600 ]; do : > /work/$i; i=$((i+1)); done; sleep 30", "files"},
		"deep":                {"cd /work; i=0; while [ $i -lt 200 ]; do mkdir d; cd d; i=$((i+1)); done; sleep 30", "deep"},
		"sparse":              {"truncate -s 100G /work/a; sleep 1.5; exit 9", ""},
		"hard links":          {fmt.Sprintf(fill, 6, "a") + "ln /work/a /work/b; ln /work/a /work/c; sleep 1.5; exit 9", ""},
		"within":              {fmt.Sprintf(fill, 6, "a") + "sleep 1.5; exit 9", ""},
		"written and removed": {fmt.Sprintf(fill, 6, "a") + "rm /work/a; " + fmt.Sprintf(fill, 6, "b") + "sleep 1.5; exit 9", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, id := newAudited(t), harness.NewID()
			before(t, a.work)
			res := a.Run(t, "run", "--bundle", shell(t, tt.script, a.work, "resources.disk_mb=10", "process.max_file_mb=10"), id)
			e := a.ended(t, id)
			if tt.detail == "" {
				if res.Code != 9 || e.Reason != "exited" {
					t.Errorf("got %s and %+v, want it to end by itself with status 9", res, e)
				}
				return
			}
			if res.Code != 137 || e.Reason != "sampler_limit" || !strings.Contains(e.Detail, tt.detail) {
				t.Errorf("got %s and %+v, want sampler_limit for %s", res, e, tt.detail)
			}
			t.Logf("ended after %v: %s", res.Took, e.Detail)
		})
	}
}

// before puts more than the limit into the folder: what was there before is not
// the container's doing.
func before(t *testing.T, work string) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(work, "before"), make([]byte, 20<<20), 0o644))
}

// TestSampledDetached: the pair samples, too, and its death is the container's.
//
// Proves: S-150, S-152.
func TestSampledDetached(t *testing.T) {
	a := newAudited(t)
	t.Run("over the limit", func(t *testing.T) {
		id := harness.NewID()
		script := "for i in 1 2 3 4; do dd if=/dev/zero bs=1M count=4 of=/work/$i; done; sleep 1000"
		a.Must(t, "run", "--detach", "--bundle", shell(t, script, a.work, "resources.disk_mb=10"), id)
		if e := a.awaitStopped(t, id); e.Reason != "sampler_limit" {
			t.Errorf("state: got %+v, want sampler_limit", e)
		}
		a.Must(t, "delete", id)
	})
	t.Run("a place that is gone", func(t *testing.T) {
		id := harness.NewID()
		dir := filepath.Join(a.work, "gone")
		check(t, os.Mkdir(dir, 0o777))
		a.Must(t, "run", "--detach", "--bundle", shell(t, "sleep 1000", dir, "resources.disk_mb=10"), id)
		check(t, os.RemoveAll(dir))
		if e := a.awaitStopped(t, id); e.Reason != "sampler_lost" {
			t.Errorf("state: got %+v, want sampler_lost", e)
		}
		a.Must(t, "delete", id)
	})
}

// TestNothingToSample: without a place to write, and without a timeout, no
// process is left beside a container.
func TestNothingToSample(t *testing.T) {
	a, id := newAudited(t), harness.NewID()
	a.Must(t, "run", "--detach", "--bundle", shell(t, "sleep 1000", ""), id)
	if got := pair(t, a, id); len(got) != 0 {
		t.Errorf("got processes %v, want none that watch", got)
	}
}

// withoutControllers runs edit's command where the kernel has no controller of
// memory, pids or CPU time, as far as a runtime can see.
func withoutControllers(cmd *exec.Cmd) {
	script := "for c in memory pids cpu; do umount /sys/fs/cgroup/$c || exit 99; done; exec \"$@\""
	cmd.Args = append([]string{"sh", "-c", script, "sh"}, append([]string{cmd.Path}, cmd.Args[1:]...)...)
	cmd.Path = "/bin/sh"
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
}

// TestSampledProcesses: where there is no controller, the processes are looked
// at, and the container is ended, or stopped for as long as it ran too much. There
// is no fork bomb among them: for the 100 ms that it has, nothing holds it.
//
// Proves: S-150, S-151.
func TestSampledProcesses(t *testing.T) {
	if _, err := os.Stat("/sys/fs/cgroup/memory/cgroup.procs"); err != nil {
		t.Fatal("this test takes the controllers of cgroup v1 away; want a host that has them")
	}
	for name, tt := range map[string]struct{ script, annotation, detail string }{
		"memory":    {"x=x; while :; do x=$x$x; done", "resources.memory_mb=32", "memory"},
		"processes": {"for i in 1 2 3 4 5 6 7 8; do sleep 30 & done; wait", "resources.max_processes=5", "processes"},
		"setsid":    {"for i in 1 2 3 4 5 6 7 8; do setsid sleep 30 & done; wait", "resources.max_processes=5", "processes"},
	} {
		t.Run(name, func(t *testing.T) {
			a, id := newAudited(t), harness.NewID()
			res := a.StartWith(t, withoutControllers, "run", "--bundle", shell(t, tt.script, "", tt.annotation), id).Wait(t)
			if e := a.ended(t, id); res.Code != 137 || e.Reason != "sampler_limit" || !strings.Contains(e.Detail, tt.detail) {
				t.Errorf("got %s and %+v, want sampler_limit for %s", res, e, tt.detail)
			}
		})
	}
	t.Run("cpu", func(t *testing.T) {
		a, id := newAudited(t), harness.NewID()
		// Two that are busy, under a share of a fifth of one core.
		script := "for i in 1 2; do while :; do :; done & done; sleep 4; cat /proc/[0-9]*/stat; exit 9"
		res := a.StartWith(t, withoutControllers, "run", "--bundle", shell(t, script, "", "resources.cpu_percent=20"), id).Wait(t)
		if res.Code != 9 || res.Took < 4*time.Second {
			t.Fatalf("got %s, want exit status 9", res)
		}
		if used := ticks(t, res.Stdout); used < 30 || used > 250 {
			t.Errorf("got %d hundredths of a second of CPU time in four seconds, want about 80", used)
		} else {
			t.Logf("%d hundredths of a second", used)
		}
	})
}

// ticks adds up utime and stime of lines of proc_pid_stat(5).
func ticks(t *testing.T, text string) (sum int) {
	t.Helper()
	for line := range strings.Lines(text) {
		fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
		var user, system int
		_, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
		check(t, err)
		sum += user + system
	}
	return sum
}
