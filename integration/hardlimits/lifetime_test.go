//go:build vm

package hardlimits

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// annotate is an edit that sets one annotation of sage's.
func annotate(key, value string) func(*specs.Spec) {
	return func(s *specs.Spec) {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations["sage.sandbox."+key] = value
	}
}

// exit is how "state" says that a container ended.
type exit struct {
	Reason, Detail string
	Status         *int
}

func exitOf(t *testing.T, r *harness.Runtime, id string) (status string, e exit) {
	t.Helper()
	var s struct {
		Status string
		Exit   exit
	}
	check(t, json.Unmarshal([]byte(r.Must(t, "state", id).Stdout), &s))
	return s.Status, s.Exit
}

// TestLifetimeTimeout: under hard limits, cgroup.kill ends what is blocked, has
// left its session and ignores signals.
//
// Proves: S-136, S-137.
func TestLifetimeTimeout(t *testing.T) {
	const script = "trap '' TERM; setsid sh -c 'sleep 1000 & sleep 1000' & cat; sleep 1000"
	t.Run("foreground", func(t *testing.T) {
		r, id := cgroupfs.runtime(t, hard), harness.NewID()
		in, silent, err := os.Pipe()
		check(t, err)
		defer in.Close()
		defer silent.Close()
		bundle := cgroupfs.bundle(t, id, script, annotate("timeout_seconds", "2")).Dir
		res := r.StartWith(t, func(cmd *exec.Cmd) { cmd.Stdin = in }, "run", "--keep", "--bundle", bundle, id).Wait(t)
		if _, e := exitOf(t, r, id); res.Code != 137 || e.Reason != "timeout" || res.Took < 2*time.Second {
			t.Errorf("got %s after %v and %+v, want a timeout after two seconds", res, res.Took, e)
		}
	})
	t.Run("detached", func(t *testing.T) {
		r := cgroupfs.runtime(t, hard)
		b := cgroupfs.start(t, r, script, annotate("timeout_seconds", "2"))
		r.Must(t, "pause", b.id)
		var e exit
		harness.Eventually(t, "it is stopped", func() bool {
			var status string
			status, e = exitOf(t, r, b.id)
			return status == "stopped"
		})
		if e.Reason != "timeout" {
			t.Errorf("got %+v, want a timeout", e)
		}
	})
}

// TestLifetimeReasons: what the kernel did is told as the reason.
//
// Proves: A-048, E-041.
func TestLifetimeReasons(t *testing.T) {
	for name, tt := range map[string]struct {
		script, reason, detail string
		code                   int
	}{
		"memory":    {"x=x; while :; do x=$x$x; done", "oom_killed", "want of memory", 137},
		"a child's": {"sh -c 'x=x; while :; do x=$x$x; done'; exit 3", "oom_killed", "want of memory", 137}, // as a group
		"processes": {"for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; exit 6", "pids_limit", "max_processes", 2},
		"disk":      {"dd if=/dev/zero of=/dev/shm/x bs=64k count=4096", "disk_quota", "disk quota", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, id := cgroupfs.runtime(t, hard), harness.NewID()
			res := r.Run(t, "run", "--keep", "--bundle", cgroupfs.bundle(t, id, tt.script, limits(32, 50, 5), annotate("resources.disk_mb", "8")).Dir, id)
			if _, e := exitOf(t, r, id); res.Code != tt.code || e.Reason != tt.reason || !strings.Contains(e.Detail, tt.detail) {
				t.Errorf("got %s and %+v, want %d and %s", res, e, tt.code, tt.reason)
			}
		})
	}
}

// TestLifetimeUnwatched: where the kernel holds every limit, nothing of sage's is
// left beside a container.
func TestLifetimeUnwatched(t *testing.T) {
	r := cgroupfs.runtime(t, hard)
	b := cgroupfs.start(t, r, "sleep 1000")
	if _, err := os.Stat(filepath.Join(r.Root, b.id, "sage-watch.json")); err == nil {
		t.Error("got a plan to watch it, want none under hard limits")
	}
}

// TestLifetimeSampled: in soft mode the disk is sampled, on this kernel too, and
// the cgroup holds the rest.
//
// Proves: S-150, S-154.
func TestLifetimeSampled(t *testing.T) {
	for name, tt := range map[string]struct {
		script, reason string
		code           int
	}{
		"over":   {"for i in 1 2 3 4 5; do dd if=/dev/zero of=/work/$i bs=1M count=6; done; sleep 60", "sampler_limit", 137},
		"sparse": {"truncate -s 9M /work/a; truncate -s 9M /work/b; sleep 2; exit 4", "exited", 4},
	} {
		t.Run(name, func(t *testing.T) {
			work := harness.TempDir(t)
			check(t, os.Chmod(work, 0o777))
			r, id := cgroupfs.runtime(t, harness.SoftAgent+"write_paths: ["+work+"]\n"), harness.NewID()
			bundle := cgroupfs.bundle(t, id, tt.script, annotate("resources.disk_mb", "10"), func(s *specs.Spec) {
				s.Mounts = append(s.Mounts, specs.Mount{Destination: "/work", Type: "bind", Source: work, Options: []string{"bind", "rw"}})
			})
			res := r.Run(t, "run", "--keep", "--bundle", bundle.Dir, id)
			if _, e := exitOf(t, r, id); res.Code != tt.code || e.Reason != tt.reason {
				t.Errorf("got %s and %+v, want %d and %s", res, e, tt.code, tt.reason)
			}
		})
	}
}
