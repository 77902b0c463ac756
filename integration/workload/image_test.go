//go:build kernel

package workload

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

// unpackImage is the tree below the root of every container, with the scripts:
// a mounted folder would close AF_UNIX.
func unpackImage(t *testing.T) string {
	t.Helper()
	dir := harness.Workload(t)
	if _, err := harness.Output(exec.Command("cp", "-r", "testdata", filepath.Join(dir, "workload"))); err != nil {
		t.Fatal(err)
	}
	return dir
}
