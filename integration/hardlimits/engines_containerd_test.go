//go:build vm

package hardlimits

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sage-sandbox/sage/integration/harness"
)

// ctr is containerd's client, with sage's shim.
type ctr struct{ c *harness.Containerd }

func (c ctr) args(more ...string) []string {
	return append([]string{"run", "--runtime", "io.containerd.sage.v2", "--runtime-config-path", c.c.ShimConfig}, more...)
}

func (c ctr) try(t *testing.T, args ...string) answer {
	t.Helper()
	return ask(t, c.c.Ctr(t, args...))
}

func annotated(mib string) []string {
	return []string{"--annotation", "sage.sandbox.resources.disk_mb=" + mib}
}

func (c ctr) start(t *testing.T, id, script string) {
	t.Helper()
	args := append([]string{"--detach"}, annotated("8")...)
	c.c.Must(t, c.args(append(args, harness.BusyboxImage, id, "sh", "-c", script)...)...)
	t.Cleanup(func() { c.remove(t, id) })
}

// remove deletes what is there of a container and its task.
func (c ctr) remove(t *testing.T, id string) {
	t.Helper()
	_ = c.try(t, "tasks", "delete", "--force", id)
	if a := c.try(t, "containers", "delete", id); a.code != 0 && !strings.Contains(a.errs, "not found") {
		t.Errorf("ctr containers delete: %s", a)
	}
}

// TestEngineContainerd: containerd alone with sage's shim, its restart, and what
// is left where the shim is killed.
//
// Proves: S-131, S-141, S-143, S-138.
func TestEngineContainerd(t *testing.T) {
	check(t, os.MkdirAll(enginesAudit, 0o700))
	// nerdctl sets up networks as a hook of the runtime.
	host := harness.HostFile(t, enginesHost+"hooks: ["+harness.Peer(t, "nerdctl")+"]\n")
	c := ctr{harness.StartContainerd(t, harness.ContainerdOptions{Dir: enginesDir, HostFile: host})}
	c.c.ImportBusybox(t)
	for _, s := range []struct {
		name string
		try  func(*testing.T, ctr)
	}{{"disk", ctrDisk}, {"refused", ctrRefused}, {"restart", ctrRestart}, {"nerdctl", ctrNerdctl}, {"shim killed", ctrShimKilled}} {
		since := time.Now()
		t.Run(s.name, func(t *testing.T) { s.try(t, c) })
		t.Logf("%6.1f s  %s", time.Since(since).Seconds(), s.name)
	}
	nothingHeld(t)
}

func ctrDisk(t *testing.T, c ctr) {
	c.start(t, "disk", "dd if=/dev/zero of=/f bs=64k count=1000 2>/dev/null; sleep 1000")
	script := "stat -c %s /f"
	var got answer
	await(t, "it has written what it may", func() bool {
		got = c.try(t, "tasks", "exec", "--exec-id", harness.NewID(), "disk", "sh", "-c", script)
		n := lastNumber(got.out)
		return n <= 8*mebibyte && n > 8*mebibyte-256<<10
	})
	more := c.try(t, "tasks", "exec", "--exec-id", "more", "disk", "sh", "-c", "dd if=/dev/zero of=/tmp/f bs=64k count=100 2>/dev/null; stat -c %s /tmp/f")
	if n := lastNumber(more.out); n > 256<<10 {
		t.Errorf("beside what is full: %s", more)
	}
}

func ctrRefused(t *testing.T, c ctr) {
	a := c.try(t, c.args(append(annotated("99999"), harness.BusyboxImage, "refused", "true")...)...)
	a.wantRefused(t, "sandbox.limit_exceeded", "resources.disk_mb")
	c.remove(t, "refused")
}

// A container outlives containerd, with its limit.
func ctrRestart(t *testing.T, c ctr) {
	c.start(t, "outlives", "sleep 1000")
	c.c.Restart(t)
	a := c.try(t, "tasks", "exec", "--exec-id", "again", "outlives", "sh", "-c", ctrFill)
	if n := lastNumber(a.out); n > 8*mebibyte || n < 8*mebibyte-256<<10 {
		t.Errorf("after a restart of containerd: %s, want the limit of 8 MiB", a)
	}
}

// nerdctl, with runc's shim: to sage's it has no way to tell of a configuration.
func ctrNerdctl(t *testing.T, c ctr) {
	args := append([]string{"run", "--rm", "--net=none", "--pull=never", "--memory=64m", "--runtime", c.c.Runtime}, annotated("8")...)
	a := ask(t, c.c.Nerdctl(t, append(args, harness.BusyboxImage, "sh", "-c", ctrFill)...)).wantOK(t)
	if n := lastNumber(a.out); n > 8*mebibyte || n < 8*mebibyte-256<<10 {
		t.Errorf("%s, want the limit of 8 MiB", a)
	}
}

const ctrFill = "dd if=/dev/zero of=/f bs=64k count=1000 2>/dev/null; stat -c %s /f"

// The shim dies and takes the container with it; containerd's cleanup, or a
// sweep, gives the project back.
func ctrShimKilled(t *testing.T, c ctr) {
	c.start(t, "killed", "echo x > /x; sleep 1000")
	if killNamed(t, "killed", "containerd-shim") == 0 {
		t.Fatal("there is no shim to kill")
	}
	await(t, "containerd has seen it", func() bool {
		return !strings.Contains(c.try(t, "tasks", "list").out, "RUNNING")
	})
	c.remove(t, "killed")
}
