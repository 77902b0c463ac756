//go:build kernel

package kernel

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// Nobody of this number needs to exist: one mapping of the user to root needs
// no newuidmap and no /etc/subuid.
const unprivileged = 1001

// TestRootless walks through a container's life as a user without any right.
// To such a user only the memfd path of the sealed binary is open.
func TestRootless(t *testing.T) {
	r := runtimeOfUser(t)
	bundle, id := rootlessBundle(t, r), harness.NewID()
	res := unprivilegedRun(t, r, "run", "--bundle", bundle, id)
	exitsWith(t, res, 5)
	if !strings.HasPrefix(res.Stdout, "uid=0(root)") {
		t.Errorf("run: %s, want root inside", res)
	}
	exitsWith(t, unprivilegedRun(t, r, "create", "--bundle", bundle, id), 0)
	if got := unprivilegedRun(t, r, "state", id).Stdout; !strings.Contains(got, `"status": "created"`) {
		t.Errorf("state: %s", got)
	}
	exitsWith(t, unprivilegedRun(t, r, "kill", id, "KILL"), 0)
	exitsWith(t, unprivilegedRun(t, r, "delete", "--force", id), 0)
	exitsWith(t, unprivilegedRun(t, r, "delete", "--force", id), 0)
}

// runtimeOfUser has a state root that is the user's, and a copy of the binary:
// the original may be in a folder that is closed to others, such as /root.
func runtimeOfUser(t *testing.T) *harness.Runtime {
	t.Helper()
	r := harness.NewRuntime(t)
	r.Bin = copyBinary(t, r.Bin, "bin")
	check(t, os.Chown(r.Root, unprivileged, unprivileged))
	return r
}

func unprivilegedRun(t *testing.T, r *harness.Runtime, args ...string) harness.Result {
	t.Helper()
	return r.StartWith(t, asUser(unprivileged), args...).Wait(t)
}

// rootlessBundle is what "spec --rootless" gives, on the shared tree.
func rootlessBundle(t *testing.T, r *harness.Runtime) string {
	t.Helper()
	dir := harness.TempDir(t)
	check(t, os.Chown(dir, unprivileged, unprivileged))
	exitsWith(t, unprivilegedRun(t, r, "spec", "--rootless", "--bundle", dir), 0)
	path := filepath.Join(dir, "config.json")
	spec := decode(t, path)
	spec.Process.Terminal = false
	spec.Process.Args = []string{"sh", "-c", "id; exit 5"}
	spec.Root.Path = harness.Busybox(t)
	check(t, os.WriteFile(path, []byte(asJSON(t, spec)), 0o644))
	return dir
}

func decode(t *testing.T, path string) *specs.Spec {
	t.Helper()
	var s specs.Spec
	check(t, json.Unmarshal([]byte(readText(t, path)), &s))
	return &s
}

// TestUnwritableRoot: a user who may not write to the state root is told so,
// and nothing is half made.
func TestUnwritableRoot(t *testing.T) {
	r := runtimeOfUser(t)
	check(t, os.Chown(r.Root, 0, 0))
	bundle := harness.NewBundle(t, mapUsers)
	res := unprivilegedRun(t, r, "create", "--bundle", bundle.Dir, harness.NewID())
	refused(t, r, res, 1)
	if want := "permission denied"; !strings.Contains(res.Stderr, want) {
		t.Errorf("got %q, want %q", res.Stderr, want)
	}
}
