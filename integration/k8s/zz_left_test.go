//go:build k8s

package k8s

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestShimKilled takes away what stands between kubelet and the container: the
// pod ends, and deleting it leaves no less nothing.
func TestShimKilled(t *testing.T) {
	p := start(t, manifest("orphan", "exec sleep 1000"))
	c := p.sandboxed("main")
	if err := syscall.Kill(c.parent(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.await("to have failed", func(s status) bool { return s.Status.Phase == "Failed" })
	p.delete()
}

// TestNothingIsLeft comes last: the pods of all tests are deleted. kubelet lets
// a minute pass until it removes what is left of containers and their images'
// layers.
func TestNothingIsLeft(t *testing.T) {
	var left []string
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		now, err := lookAround()
		if err != nil {
			t.Fatal(err)
		}
		if left = now.added(theNode.clean); len(left) == 0 {
			return
		}
	}
	t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
}
