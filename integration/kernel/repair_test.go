//go:build kernel

package kernel

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestRepair: "check --repair" removes what a killed create left, and nothing
// of a container, of a create that is at work, or of others.
//
// Proves: S-155.
func TestRepair(t *testing.T) {
	r := harness.NewRuntime(t)
	if harness.IsRunc(t, r.Bin) {
		t.Skip("runc has no check")
	}
	bundle := harness.NewBundle(t, func(s *specs.Spec) { s.Process.Args = []string{"sleep", "1000"} })
	r.Must(t, "run", "--detach", "--bundle", bundle.Dir, harness.NewID())
	r.Must(t, "create", "--bundle", bundle.Dir, harness.NewID())
	for _, dir := range []string{"empty", "theirs/x"} {
		check(t, os.MkdirAll(filepath.Join(r.Root, dir), 0o755))
	}
	defer func() { check(t, os.RemoveAll(filepath.Join(r.Root, "theirs"))) }()
	busy, at := createInHook(t, r)
	before := harness.Snapshot(t, r.Scope())

	run, killed := createInHook(t, r)
	harness.Eventually(t, "the second hook runs too", func() bool { return len(hookProcesses(t)) > 1 })
	run.Kill()
	run.Wait(t)
	early := filepath.Join(r.Root, "early") // of one that was killed before its record
	check(t, os.Mkdir(early, 0o711))
	check(t, os.Chmod(early, 0o711))

	if diff := cmp.Diff([]string{"early", killed}, repaired(t, r)); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	for _, line := range harness.Settle(t, r.Scope(), before) {
		t.Error(line)
	}
	if got := repaired(t, r); got != nil {
		t.Errorf("a second repair removed %q", got)
	}
	check(t, os.Remove(filepath.Join(r.Root, "empty")))
	deleteForce(t, r, at)
	busy.Wait(t)
}

// repaired is what one repair removed.
func repaired(t *testing.T, r *harness.Runtime) (names []string) {
	t.Helper()
	var report struct {
		Repairs []struct{ What, Name, Did string }
	}
	check(t, json.Unmarshal([]byte(r.Must(t, "check", "--repair", "--json").Stdout), &report))
	for _, x := range report.Repairs {
		if x.What != "container" || x.Did != "removed" {
			t.Errorf("got %+v, want a container removed", x)
		}
		names = append(names, x.Name)
	}
	return names
}
