//go:build kernel

package egress

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

// world is the servers, with the client and what it has to trust in a folder
// that containers have at the same path.
type world struct {
	*harness.World
	ip, dir string
}

// newWorld makes one in the network namespace of the calling thread.
func newWorld(t *testing.T, ip string) *world {
	t.Helper()
	w := &world{harness.NewWorld(t, harness.WorldOptions{IP: ip}), ip, harness.TempDir(t)}
	if host, _, err := net.SplitHostPort(w.Resolver); err != nil || host != ip {
		t.Fatalf("resolver: saw %q, want it at %s", w.Resolver, ip)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	// A copy: the test binary's own folder is for its user alone.
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "client"), data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "ca.pem"), harness.WorldCA(t), 0o644); err != nil {
		t.Fatal(err)
	}
	return w
}
