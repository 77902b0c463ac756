//go:build kernel

package kernel

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// stages are the hooks in the order that runc runs them. It differs from the
// runtime specification's in one: poststart runs at the end of create.
var stages = []struct {
	name string
	set  func(*specs.Hooks, specs.Hook)
	// status is what the state on standard input says.
	status specs.ContainerState
}{
	{"prestart", func(h *specs.Hooks, k specs.Hook) { h.Prestart = append(h.Prestart, k) }, specs.StateCreating}, //nolint:staticcheck // deprecated, and engines still use it
	{"createRuntime", func(h *specs.Hooks, k specs.Hook) { h.CreateRuntime = append(h.CreateRuntime, k) }, specs.StateCreating},
	{"createContainer", func(h *specs.Hooks, k specs.Hook) { h.CreateContainer = append(h.CreateContainer, k) }, specs.StateCreating},
	{"poststart", func(h *specs.Hooks, k specs.Hook) { h.Poststart = append(h.Poststart, k) }, specs.StateCreated},
	{"startContainer", func(h *specs.Hooks, k specs.Hook) { h.StartContainer = append(h.StartContainer, k) }, specs.StateCreated},
	{"poststop", func(h *specs.Hooks, k specs.Hook) { h.Poststop = append(h.Poststop, k) }, specs.StateStopped},
}

// hookScript appends a line to the log. startContainer runs inside, where the
// log's folder is mounted at the path that it has outside.
const hookScript = `echo "$1 $(cat)" >>"$2"`

// TestHooks compares order, and what each hook reads on its standard input, from
// one log that all of them append to.
func TestHooks(t *testing.T) {
	dir := harness.TempDir(t)
	log := filepath.Join(dir, "log")
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: dir, Source: dir, Type: "bind", Options: []string{"bind"}})
		s.Process.Args = []string{"true"}
		s.Hooks = loggingHooks(log)
	})
	r := harness.NewRuntime(t)
	id := harness.NewID()
	r.Must(t, "create", "--bundle", bundle.Dir, id)
	r.Must(t, "start", id)
	waitStatus(t, r, id, specs.StateStopped)
	r.Must(t, "delete", id)

	var want []string
	for _, stage := range stages {
		want = append(want, stage.name, stage.name)
	}
	if diff := cmp.Diff(want, parseHookLog(t, readText(t, log), id, bundle.Dir)); diff != "" {
		t.Errorf("order of hooks (-want +got):\n%s", diff)
	}
}

// loggingHooks has two hooks of every stage.
func loggingHooks(log string) *specs.Hooks {
	var hooks specs.Hooks
	for _, stage := range stages {
		hook := specs.Hook{Path: "/bin/sh", Args: []string{"sh", "-c", hookScript, "sh", stage.name, log}}
		stage.set(&hooks, hook)
		stage.set(&hooks, hook)
	}
	return &hooks
}

// parseHookLog returns the names in order, and checks each hook's state.
func parseHookLog(t *testing.T, text, id, bundle string) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(text) {
		name, doc, _ := strings.Cut(line, " ")
		names = append(names, name)
		var got specs.State
		check(t, json.Unmarshal([]byte(doc), &got))
		checkHookState(t, name, got, specs.State{ID: id, Bundle: bundle, Status: statusAt(name)})
	}
	return names
}

// statusAt is "" for a name that no stage has, which then differs.
func statusAt(name string) specs.ContainerState {
	for _, stage := range stages {
		if stage.name == name {
			return stage.status
		}
	}
	return ""
}

func checkHookState(t *testing.T, name string, got, want specs.State) {
	t.Helper()
	if got.ID != want.ID || got.Bundle != want.Bundle || got.Status != want.Status || got.Version == "" {
		t.Errorf("%s got state %+v, want %+v", name, got, want)
	}
	if hasPid := got.Pid != 0; hasPid != (want.Status != specs.StateStopped) {
		t.Errorf("%s got pid %d in status %s", name, got.Pid, got.Status)
	}
}

// failingExit is the exit status of run when a hook fails: startContainer's
// init is on its own by then and ends like this, poststop comes too late.
var failingExit = map[string]int{
	"prestart": 1, "createRuntime": 1, "createContainer": 1, "poststart": 1, "startContainer": 255, "poststop": 0,
}

// TestFailingHook: whichever hook fails, its stage, number and exit status are
// told, and nothing is left.
func TestFailingHook(t *testing.T) {
	hook := specs.Hook{Path: "/bin/sh", Args: []string{"sh", "-c", "echo of the hook >&2; exit 3"}}
	for _, stage := range stages {
		t.Run(stage.name, func(t *testing.T) {
			r := harness.NewRuntime(t)
			bundle := harness.NewBundle(t, func(s *specs.Spec) {
				s.Process.Args = []string{"true"}
				s.Hooks = &specs.Hooks{}
				stage.set(s.Hooks, hook)
			})
			res := r.Run(t, "run", "--bundle", bundle.Dir, harness.NewID())
			exitsWith(t, res, failingExit[stage.name])
			if want := "error running " + stage.name + " hook #0: exit status 3"; !strings.Contains(res.Stderr, want) {
				t.Errorf("got %q, want %q", res.Stderr, want)
			}
			emptyRoot(t, r)
		})
	}
}

// TestHookTimeout: a hook that does not end in time is killed.
func TestHookTimeout(t *testing.T) {
	r := harness.NewRuntime(t)
	second := 1
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		s.Hooks = &specs.Hooks{CreateRuntime: []specs.Hook{{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Timeout: &second}}}
	})
	res := r.Run(t, "create", "--bundle", bundle.Dir, harness.NewID())
	if want := "hook ran past specified timeout of 1.0s"; !strings.Contains(res.Stderr, want) {
		t.Errorf("got %s, want %q", res, want)
	}
	refused(t, r, res, 1)
}
