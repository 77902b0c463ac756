//go:build kernel

package policy

import (
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestFaults: whatever step of a start fails, and however, the host is as it
// was. Proves: S-138.
func TestFaults(t *testing.T) {
	harness.Faults(t, harness.SoftSage, annotated(t, "", ""), harness.RunFaults...)
}

// TestNoFaults: what is installed reads no such variable.
func TestNoFaults(t *testing.T) {
	r := harness.NewRuntimeWith(t, harness.SoftSage)
	r.Env = []string{"SAGE_FAULT=admit=error"}
	r.Must(t, "run", "--bundle", harness.NewBundle(t, harness.Args("true")).Dir, harness.NewID())
}
