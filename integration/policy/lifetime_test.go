//go:build kernel

package policy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// ending is what "state" and the audit say of a container's end.
type ending struct {
	Event, Reason, Detail string
	Status                *int
}

// audited is a runtime with the audit of its containers, and a folder that they
// may write.
type audited struct {
	*harness.Runtime
	dir, work string
}

func newAudited(t *testing.T) audited {
	t.Helper()
	dir, work := harness.TempDir(t), harness.TempDir(t)
	check(t, os.Chmod(work, 0o777))
	host := harness.SoftAgent + "write_paths: [" + work + "]\naudit_dir: " + dir + "\n"
	return audited{harness.NewRuntimeWith(t, host), dir, work}
}

// ended gives the last exit that was written down.
func (a audited) ended(t *testing.T, id string) (e ending) {
	t.Helper()
	for line := range strings.Lines(readText(t, filepath.Join(a.dir, id+".jsonl"))) {
		var one ending
		_ = json.Unmarshal([]byte(line), &one) // details of other events are objects
		if one.Event == "exit" {
			e = one
		}
	}
	return e
}

// stated is the exit that "state" tells, with its status.
func (a audited) stated(t *testing.T, id string) (status string, e ending) {
	t.Helper()
	var s struct {
		Status string
		Exit   ending
	}
	check(t, json.Unmarshal([]byte(a.Must(t, "state", id).Stdout), &s))
	return s.Status, s.Exit
}

func (a audited) awaitStopped(t *testing.T, id string) ending {
	t.Helper()
	var e ending
	harness.Eventually(t, "the container is stopped", func() bool {
		var status string
		status, e = a.stated(t, id)
		return status == "stopped"
	})
	return e
}

// shell is a bundle whose root is a directory of its own that it can write, or
// with a folder mounted at /work.
func shell(t *testing.T, script, work string, annotations ...string) string {
	t.Helper()
	return harness.NewBundle(t, func(s *specs.Spec) {
		s.Process.Args = []string{"sh", "-c", script}
		s.Annotations = map[string]string{}
		for _, a := range annotations {
			key, value, _ := strings.Cut(a, "=")
			s.Annotations["sage.sandbox."+key] = value
		}
		if work != "" {
			s.Mounts = append(s.Mounts, specs.Mount{Destination: "/work", Type: "bind", Source: work, Options: []string{"bind", "rw"}})
		}
	}).Dir
}

// TestTimeout: time is up for whatever the container does: waits for an input
// that never comes, has left its session and its parent, ignores signals.
//
// Proves: S-136, S-137.
func TestTimeout(t *testing.T) {
	for name, script := range map[string]string{
		"blocked on its input": "cat",
		"busy":                 "while :; do :; done",
		"ignores signals":      "trap '' TERM INT HUP; while :; do sleep 1; done",
		"other sessions":       "setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) ; sleep 1000",
		"closed its pipes":     "exec >&- 2>&- <&-; sleep 1000",
	} {
		t.Run(name, func(t *testing.T) {
			a, id := newAudited(t), harness.NewID()
			in, silent, err := os.Pipe()
			check(t, err)
			defer in.Close()
			defer silent.Close()
			run := a.StartWith(t, func(cmd *exec.Cmd) { cmd.Stdin = in }, "run", "--bundle", shell(t, script, "", "timeout_seconds=1"), id)
			res := run.Wait(t)
			if res.Code != 137 || res.Took < time.Second || res.Took > 6*time.Second {
				t.Errorf("got %s after %v, want exit status 137 after one second", res, res.Took)
			}
			if e := a.ended(t, id); e.Reason != "timeout" || *e.Status != 137 {
				t.Errorf("audit: got %+v, want a timeout with status 137", e)
			}
			if !strings.Contains(res.Stderr, "timeout") {
				t.Errorf("got stderr %q, want it to name the timeout", res.Stderr)
			}
		})
	}
}

// TestTimeoutNotReached: one that ends earlier keeps its status and reason.
func TestTimeoutNotReached(t *testing.T) {
	a, id := newAudited(t), harness.NewID()
	res := a.Run(t, "run", "--bundle", shell(t, "exit 7", "", "timeout_seconds=60"), id)
	if e := a.ended(t, id); res.Code != 7 || e.Reason != "exited" || *e.Status != 7 {
		t.Errorf("got %s and %+v, want exit status 7", res, e)
	}
}

// TestTimeoutRaces: where the end by itself and the end of its time are one
// moment, the reason fits the status.
func TestTimeoutRaces(t *testing.T) {
	for range 4 {
		a, id := newAudited(t), harness.NewID()
		res := a.Run(t, "run", "--bundle", shell(t, "sleep 0.99; exit 4", "", "timeout_seconds=1"), id)
		e := a.ended(t, id)
		if fits := res.Code == 4 && e.Reason == "exited" || res.Code == 137 && e.Reason == "timeout"; !fits || *e.Status != res.Code {
			t.Errorf("got %s and %+v, want either end with its own reason", res, e)
		}
	}
}

// detachedWays leave a container behind that no command waits for.
var detachedWays = map[string]func(*testing.T, audited, string, string){
	"run --detach": func(t *testing.T, a audited, bundle, id string) {
		a.Must(t, "run", "--detach", "--bundle", bundle, id)
	},
	"create and start": func(t *testing.T, a audited, bundle, id string) {
		a.Must(t, "create", "--bundle", bundle, id)
		a.Must(t, "start", id)
	},
}

// TestTimeoutDetached: without anybody who waits, the time counts from start on,
// paused or not, and "state" says why it ended.
func TestTimeoutDetached(t *testing.T) {
	for name, begin := range detachedWays {
		t.Run(name, func(t *testing.T) {
			a, id := newAudited(t), harness.NewID()
			begin(t, a, shell(t, "setsid sleep 1000 & sleep 1000", "", "timeout_seconds=2"), id)
			if got := pair(t, a, id); len(got) != 2 {
				t.Errorf("got processes %v, want two that watch", got)
			}
			a.Must(t, "pause", id)
			if e := a.awaitStopped(t, id); e.Reason != "timeout" {
				t.Errorf("state: got %+v, want a timeout", e)
			}
			harness.Eventually(t, "the pair has gone", func() bool { return len(pair(t, a, id)) == 0 })
			if e := a.ended(t, id); e.Reason != "timeout" {
				t.Errorf("audit: got %+v, want a timeout", e)
			}
			a.Must(t, "delete", id)
		})
	}
}

// pair finds the processes that watch container id, by role.
func pair(t *testing.T, a audited, id string) map[string]int {
	t.Helper()
	found := map[string]int{}
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	check(t, err)
	for _, path := range paths {
		data, _ := os.ReadFile(path) // ended meanwhile
		args := strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
		if n := len(args); n >= 3 && args[n-3] == "watch" && args[n-1] == id && strings.Contains(string(data), a.Root) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			check(t, err)
			found[args[n-2]] = pid
		}
	}
	return found
}

// TestWatcherKilled: a container ends with either of those that watch it, and
// where both are gone at once, the next exec ends it.
//
// Proves: S-152.
func TestWatcherKilled(t *testing.T) {
	for _, roles := range [][]string{{"sampler"}, {"guard"}, {"sampler", "guard"}} {
		t.Run(strings.Join(roles, " and "), func(t *testing.T) {
			a, id := newAudited(t), harness.NewID()
			a.Must(t, "run", "--detach", "--bundle", shell(t, "sleep 1000", "", "timeout_seconds=600"), id)
			a.Must(t, "exec", id, "true")
			found := pair(t, a, id)
			for _, role := range roles {
				check(t, syscall.Kill(found[role], syscall.SIGKILL))
			}
			if len(roles) == 2 {
				harness.Eventually(t, "the pair has gone", func() bool { return len(pair(t, a, id)) == 0 })
				res := a.Run(t, "exec", id, "echo", "in")
				if res.Code == 0 || !strings.Contains(res.Stderr, "sandbox.watch_failed") || strings.Contains(res.Stdout, "in") {
					t.Errorf("exec: got %s, want sandbox.watch_failed", res)
				}
			}
			if e := a.awaitStopped(t, id); e.Reason != "sampler_lost" {
				t.Errorf("state: got %+v, want sampler_lost", e)
			}
			a.Must(t, "delete", id)
		})
	}
}

// TestRunKilled: who waits in the foreground is killed. Nothing is left of sage's
// to end the container, which the next exec does.
func TestRunKilled(t *testing.T) {
	a, id := newAudited(t), harness.NewID()
	run := a.Start(t, "run", "--bundle", shell(t, "echo up; sleep 1000", "", "timeout_seconds=600"), id)
	harness.Eventually(t, "it runs", func() bool { return strings.Contains(run.Stdout(t), "up") })
	run.Kill()
	run.Wait(t)
	if res := a.Run(t, "exec", id, "true"); res.Code == 0 || !strings.Contains(res.Stderr, "sandbox.watch_failed") {
		t.Errorf("exec: got %s, want sandbox.watch_failed", res)
	}
	if e := a.awaitStopped(t, id); e.Reason != "sampler_lost" {
		t.Errorf("state: got %+v, want sampler_lost", e)
	}
}

// TestWatchTampered: a plan that cannot be read is no leave to run without.
func TestWatchTampered(t *testing.T) {
	a, id := newAudited(t), harness.NewID()
	a.Must(t, "create", "--bundle", shell(t, "echo ran", "", "timeout_seconds=600"), id)
	check(t, os.WriteFile(filepath.Join(a.Root, id, "sage-watch.json"), []byte("{"), 0o600))
	if res := a.Run(t, "start", id); res.Code == 0 || !strings.Contains(res.Stderr, "sandbox.watch_failed") {
		t.Errorf("start: got %s, want sandbox.watch_failed", res)
	}
}

// TestWatchVerb: by hand, without what the commands pass to it, it does nothing.
func TestWatchVerb(t *testing.T) {
	r, id := running(t, harness.SoftSage)
	for _, args := range [][]string{{"watch", "sampler", id}, {"watch", "king", id}, {"watch", "guard", "../" + id}, {"watch", "guard", id + "x"}} {
		if res := r.Run(t, args...); res.Code == 0 {
			t.Errorf("%v: got %s, want a refusal", args, res)
		}
	}
	r.Must(t, "exec", id, "true")
}

// TestExitReasons: the reason is told from the status and from what the kernel
// counted.
//
// Proves: A-048, E-041, G-28.
func TestExitReasons(t *testing.T) {
	for name, tt := range map[string]struct {
		script, annotation, reason, detail string
		status                             int
	}{
		"exited":          {"exit 3", "", "exited", "", 3},
		"signaled":        {"sh -c 'kill -SEGV $$'; exit $?", "", "signaled", "", 128 + 11},
		"out of memory":   {"x=x; while :; do x=$x$x; done", "resources.memory_mb=32", "oom_killed", "want of memory", 137},
		"a child of":      {"sh -c 'x=x; while :; do x=$x$x; done'; exit 5", "resources.memory_mb=32", "exited", "want of memory", 5},
		"processes":       {"for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; exit 6", "resources.max_processes=4", "pids_limit", "max_processes", 2},
		"file size limit": {"yes | head -c 9000000 > /work/f", "process.max_file_mb=1", "file_size_limit", "", 128 + 25},
	} {
		t.Run(name, func(t *testing.T) {
			a, id := newAudited(t), harness.NewID()
			var annotations []string
			if tt.annotation != "" {
				annotations = append(annotations, tt.annotation)
			}
			res := a.Run(t, "run", "--keep", "--bundle", shell(t, tt.script, a.work, annotations...), id)
			e := a.ended(t, id)
			if res.Code != tt.status || e.Reason != tt.reason || *e.Status != tt.status || !strings.Contains(e.Detail, tt.detail) {
				t.Errorf("got %s and %+v, want %d with reason %s", res, e, tt.status, tt.reason)
			}
			if _, stated := a.stated(t, id); stated.Reason != tt.reason {
				t.Errorf("state: got %+v, want reason %s", stated, tt.reason)
			}
		})
	}
}
