//go:build kernel

package kernel

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestLifecycle walks one container through every state, and tries in each what
// the state forbids.
func TestLifecycle(t *testing.T) {
	r := harness.NewRuntime(t)
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		s.Process.Args = []string{"sh", "-c", "echo started; exec sleep 1000"}
		s.Annotations = map[string]string{"org.example.key": "value"}
	})
	id, pidFile := harness.NewID(), filepath.Join(bundle.Dir, "pid")

	create := r.Start(t, "create", "--bundle", bundle.Dir, "--pid-file", pidFile, id)
	if res := create.Wait(t); res.Code != 0 || res.Stdout != "" {
		t.Fatalf("create: %s, want the payload not to run yet", res)
	}
	isCreated(t, r, bundle, id, pidFile)

	r.Must(t, "start", id)
	waitStatus(t, r, id, specs.StateRunning)
	harness.Eventually(t, "the payload prints to create's output", func() bool { return create.Stdout(t) == "started\n" })
	forbidden(t, r.Run(t, "start", id), "cannot start a container that has been started", "cannot start an already running container")
	forbidden(t, r.Run(t, "delete", id), "is not stopped")

	r.Must(t, "kill", id, "KILL")
	waitStatus(t, r, id, specs.StateStopped)
	forbidden(t, r.Run(t, "kill", id, "TERM"), "container not running")
	forbidden(t, r.Run(t, "start", id), "cannot start a container that has stopped")

	r.Must(t, "delete", id)
	forbidden(t, r.Run(t, "state", id), missingPhrase)
}

func isCreated(t *testing.T, r *harness.Runtime, bundle *harness.Bundle, id, pidFile string) {
	t.Helper()
	state := stateOf(t, r, id)
	want := specs.State{
		Version: state.Version, ID: id, Status: specs.StateCreated, Pid: state.Pid,
		Bundle: bundle.Dir, Annotations: bundle.Spec.Annotations,
	}
	if got, want := asJSON(t, state), asJSON(t, want); got != want {
		t.Errorf("state: got %s, want %s", got, want)
	}
	if got := readText(t, pidFile); got != strconv.Itoa(state.Pid) {
		t.Errorf("pid file: got %q, want %d", got, state.Pid)
	}
}

// forbidden: any of the phrases will do.
func forbidden(t *testing.T, res harness.Result, phrases ...string) {
	t.Helper()
	for _, phrase := range phrases {
		if res.Code == 1 && strings.Contains(res.Stderr, phrase) {
			return
		}
	}
	t.Errorf("got %s, want exit status 1 and one of %q", res, phrases)
}

var exits = []struct {
	name   string
	script string
	want   int
}{
	{"success", "exit 0", 0},
	{"failure", "exit 42", 42},
	{"highest", "exit 255", 255},
	{"signal", "kill -9 $$", 128 + 9},
	{"term", "kill -15 $$", 128 + 15},
}

func TestExitStatus(t *testing.T) {
	r := harness.NewRuntime(t)
	id := sleeper(t, r)
	for _, c := range exits {
		t.Run("exec/"+c.name, func(t *testing.T) {
			exitsWith(t, r.Run(t, "exec", id, "sh", "-c", c.script), c.want)
		})
		t.Run("run/"+c.name, func(t *testing.T) {
			// Pid 1 of a namespace is not killed by its own signals.
			bundle := harness.NewBundle(t, harness.Args("sh", "-c", "sh -c '"+c.script+"'; exit $?"))
			exitsWith(t, r.Run(t, "run", "--bundle", bundle.Dir, harness.NewID()), c.want)
		})
	}
	t.Run("exec/no such program", func(t *testing.T) { exitsWith(t, r.Run(t, "exec", id, "/nowhere"), 255) })
}

func exitsWith(t *testing.T, res harness.Result, code int) {
	t.Helper()
	if res.Code != code {
		t.Errorf("got %s, want exit status %d", res, code)
	}
}

const trapScript = "trap 'echo got TERM; exit 7' TERM; trap 'echo got HUP' HUP; echo ready; while :; do sleep 0.02; done"

// TestRelayedSignal: a foreground command passes on what it is sent, and its
// own end is the payload's.
func TestRelayedSignal(t *testing.T) {
	r := harness.NewRuntime(t)
	bundle := harness.NewBundle(t, harness.Args("sh", "-c", trapScript))
	for verb, args := range map[string][]string{
		"run":  {"run", "--bundle", bundle.Dir, harness.NewID()},
		"exec": {"exec", sleeper(t, r), "sh", "-c", trapScript},
	} {
		t.Run(verb, func(t *testing.T) {
			run := r.Start(t, args...)
			sendAfter(t, run, "ready", unix.SIGHUP)
			sendAfter(t, run, "got HUP", unix.SIGTERM)
			if res := run.Wait(t); res.Code != 7 || res.Stdout != "ready\ngot HUP\ngot TERM\n" {
				t.Errorf("got %s, want exit status 7 and both signals", res)
			}
		})
	}
}

func sendAfter(t *testing.T, run *harness.Running, words string, sig unix.Signal) {
	t.Helper()
	harness.Eventually(t, "the payload says "+words, func() bool { return strings.Contains(run.Stdout(t), words) })
	check(t, run.Cmd.Process.Signal(sig))
}

func TestKeep(t *testing.T) {
	r := harness.NewRuntime(t)
	bundle := harness.NewBundle(t, harness.Args("true"))
	kept, gone := harness.NewID(), harness.NewID()
	r.Must(t, "run", "--keep", "--bundle", bundle.Dir, kept)
	r.Must(t, "run", "--bundle", bundle.Dir, gone)
	if got := stateOf(t, r, kept).Status; got != specs.StateStopped {
		t.Errorf("kept container is %q, want stopped", got)
	}
	isMissing(t, r.Run(t, "state", gone), 1)
	r.Must(t, "delete", kept)
}

// TestReapedChildren: a run is the reaper of what its container leaves behind
// when the container shares the host's pid namespace.
func TestReapedChildren(t *testing.T) {
	r := harness.NewRuntime(t)
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		dropNamespace(s, specs.PIDNamespace)
		s.Process.Args = []string{"sh", "-c", "(sh -c 'sleep 0.05' &) ; sleep 0.3; exit 3"}
	})
	exitsWith(t, r.Run(t, "run", "--bundle", bundle.Dir, harness.NewID()), 3)
}

func TestListAndPs(t *testing.T) {
	r := harness.NewRuntime(t)
	id := sleeper(t, r)
	if got := strings.TrimSpace(r.Must(t, "list", "--quiet").Stdout); got != id {
		t.Errorf("list --quiet: got %q, want %q", got, id)
	}
	got := strings.TrimSpace(r.Must(t, "ps", "--format", "json", id).Stdout)
	if want := asJSON(t, []int{stateOf(t, r, id).Pid}); got != want {
		t.Errorf("ps: got %q, want %s", got, want)
	}
}

func TestPauseAndResume(t *testing.T) {
	r := harness.NewRuntime(t)
	id := sleeper(t, r)
	r.Must(t, "pause", id)
	if got := stateOf(t, r, id).Status; got != "paused" {
		t.Errorf("after pause: got %q", got)
	}
	if res := r.Run(t, "exec", id, "true"); res.Code != 255 || !strings.Contains(res.Stderr, "paused") {
		t.Errorf("exec while paused: %s", res)
	}
	r.Must(t, "resume", id)
	r.Must(t, "exec", id, "true")
	r.Must(t, "pause", id)
	r.Must(t, "delete", "--force", id) // A frozen process must die of it too.
}
