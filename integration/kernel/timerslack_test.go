//go:build kernel

package kernel

import (
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestTimerSlack: the runtime gives a thread of its own a larger timer slack, and
// which of its threads starts a process is chance. Neither a program nor a hook
// may be the one to have it.
func TestTimerSlack(t *testing.T) {
	const file, rounds = "/proc/self/timerslack_ns", 10
	dir := harness.TempDir(t)
	log := filepath.Join(dir, "log")
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: dir, Source: dir, Type: "bind", Options: []string{"bind"}})
		s.Process.Args = []string{"cat", file}
		s.Hooks = &specs.Hooks{}
		for _, stage := range stages {
			stage.set(s.Hooks, specs.Hook{Path: "/bin/sh", Args: []string{"sh", "-c", "cat " + file + " >>" + log}})
		}
	})
	want := readText(t, file)
	r := harness.NewRuntime(t)
	for range rounds {
		if got := r.Must(t, "run", "--bundle", bundle.Dir, harness.NewID()).Stdout; got != want {
			t.Errorf("timer slack of a program: %q, want that of who called the runtime, %q", got, want)
		}
	}
	if got, want := readText(t, log), strings.Repeat(want, rounds*len(stages)); got != want {
		t.Errorf("timer slack of hooks: %q, want that of who called the runtime, %q", got, want)
	}
}
