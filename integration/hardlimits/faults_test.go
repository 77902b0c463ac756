//go:build vm

package hardlimits

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestFaults: whatever step of a start fails, and however, the host is as it was,
// with its project ids, after a delete by force or the next sweep.
//
// Proves: S-138, S-010.
func TestFaults(t *testing.T) {
	root := harness.PrivateRoot(t)
	b := harness.NewBundle(t, func(s *specs.Spec) {
		s.Process.Args = []string{"sleep", "1000"}
		s.Root = &specs.Root{Path: root}
	})
	// A run's other steps are a create's; integration/policy has them all.
	harness.Faults(t, diskHost, b.Dir, "quota", "release")
	nothingLeft(t, harness.NewRuntimeWith(t, diskHost))
}
