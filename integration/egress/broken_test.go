//go:build kernel

package egress

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

// A bridge or a proxy that ends before it serves fails the container with what it
// said, and leaves nothing: at once, or with the runtime already at work on the
// container, which is made beside it.
//
// Proves: S-093.
func TestBrokenHelper(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	runtime, dir := harness.Sage(t), w.bundle(t, nil)
	for name, script := range map[string]string{
		"at once": "echo it is broken >&2; exit 1",
		"later":   "sleep 0.05; echo it is broken >&2; exit 1",
		// It takes what it is given, and never says that it serves.
		"proxy": `test "$1" = proxy || exec ` + filepath.Join(filepath.Dir(runtime), "sage-egress") + ` "$@"; echo it is broken >&2; exit 1`,
	} {
		t.Run(name, func(t *testing.T) {
			r := w.runtime(t)
			r.Bin = besideScript(t, runtime, script)
			for _, verb := range []string{"run", "create"} {
				if name == "proxy" && verb == "create" {
					continue // which has none yet
				}
				id := harness.NewID()
				res := r.Run(t, verb, "--bundle", dir, id)
				if res.Code != 1 || !strings.Contains(res.Stderr, "sandbox.egress_unavailable") || !strings.Contains(res.Stderr, "it is broken") {
					t.Errorf("%s: got %s, want what the program said and sandbox.egress_unavailable", verb, res)
				}
				if left, err := os.ReadDir(r.Root); err != nil || len(left) > 0 {
					t.Errorf("%s: state root: saw %v, %v; want it empty", verb, left, err)
				}
			}
			if left, err := harness.Cgroups(harness.Mark()); err != nil || len(left) > 0 {
				t.Errorf("cgroups: saw %v, %v; want none", left, err)
			}
		})
	}
}

// besideScript is a copy of the runtime with a script for sage-egress beside it,
// where only root can write.
func besideScript(t *testing.T, runtime, script string) string {
	t.Helper()
	dir := harness.TempDir(t)
	bin, err := os.ReadFile(runtime)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "sage-runtime"), bin, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "sage-egress"), []byte("#!/bin/sh\n"+script+"\n"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "sage-runtime")
}

// The processes are begun long before they serve, so every other step that fails
// has them to take back as well.
//
// Proves: S-093.
func TestFaultsBeforeServing(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	harness.Faults(t, w.hostText(t), w.bundle(t, nil))
	if left, err := harness.Cgroups(harness.Mark()); err != nil || len(left) > 0 {
		t.Errorf("cgroups: saw %v, %v; want none", left, err)
	}
}
