//go:build kernel

package kernel

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestEnvironment: init and exec get the bundle's environment, and HOME, which
// libcontainer adds from the image's passwd; nothing of the runtime's own, where
// an engine's credentials can be.
//
// Proves: S-041, S-044.
func TestEnvironment(t *testing.T) {
	r := harness.NewRuntime(t)
	r.Env = append(r.Env, "REGISTRY_TOKEN=hunter2", "LD_PRELOAD_X=1", "GODEBUG=")
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		s.Process.Env = []string{"PATH=/bin", "ONE=1"}
		s.Process.Args = []string{"sh", "-c", "env; exec sleep 1000"}
	})
	id := harness.NewID()
	run := r.Start(t, "run", "--detach", "--bundle", bundle.Dir, id)
	run.Wait(t)
	// The shell adds PWD and SHLVL of its own.
	want := []string{"HOME=/root", "ONE=1", "PATH=/bin", "PWD=/", "SHLVL=1"}
	harness.Eventually(t, "the payload prints", func() bool { return strings.Count(run.Stdout(t), "\n") >= len(want) })
	if diff := cmp.Diff(sortedLines(run.Stdout(t)), want); diff != "" {
		t.Errorf("init: %s", diff)
	}
	res := r.Must(t, "exec", "--env", "TWO=2", id, "env")
	if diff := cmp.Diff(sortedLines(res.Stdout), []string{"HOME=/root", "ONE=1", "PATH=/bin", "TWO=2"}); diff != "" {
		t.Errorf("exec: %s", diff)
	}
}

func sortedLines(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return lines
}
