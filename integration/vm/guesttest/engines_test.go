//go:build vm

package guesttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
	"github.com/sage-sandbox/sage/integration/vm/plan"
)

// soft is a host file that sage can follow on any host: this is about Docker.
func soft(t *testing.T) string { return harness.HostFile(t, harness.SoftSage) }

// Docker starts on the disk with quotas, in both ways that it keeps images, and
// runs containers with runc, with sage and with sage's shim; their upper layers
// are on that disk.
func TestDocker(t *testing.T) {
	for _, c := range []struct {
		name     string
		overlay2 bool
		runtimes []string
	}{
		{"overlay2", true, []string{"runc", "sage"}},
		{"snapshotter", false, []string{"sage-shim"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(plan.QuotaXFS, "docker-"+c.name)
			d := harness.StartDocker(t, harness.DockerOptions{Dir: dir, Overlay2: c.overlay2, HostFile: soft(t)})
			for _, runtime := range c.runtimes {
				id := d.Must(t, "run", "--detach", "--network=none", "--runtime", runtime, harness.BusyboxImage, "sleep", "1000")
				if got := d.Must(t, "exec", id, "echo", "inside"); got != "inside" {
					t.Errorf("%s: exec prints %q", runtime, got)
				}
				upperIsOn(t, d.Must(t, "inspect", "--format", "{{.State.Pid}}", id), dir)
				d.Must(t, "rm", "--force", id)
			}
		})
	}
}

// upperIsOn looks for the overlay among the mounts of a container's process.
func upperIsOn(t *testing.T, pid, dir string) {
	t.Helper()
	if mounts := read(t, "/proc/"+pid+"/mounts"); !strings.Contains(mounts, "upperdir="+dir+"/") {
		t.Errorf("pid %s has no overlay with an upper layer below %s:\n%s", pid, dir, mounts)
	}
}

// containerd runs a container with sage's shim on the same disk.
func TestContainerd(t *testing.T) {
	dir := filepath.Join(plan.QuotaXFS, "containerd")
	c := harness.StartContainerd(t, harness.ContainerdOptions{Dir: dir, HostFile: soft(t)})
	c.ImportBusybox(t)
	got := c.Must(t, "run", "--rm", "--runtime", "io.containerd.sage.v2", "--runtime-config-path", c.ShimConfig, harness.BusyboxImage, "one", "echo", "inside")
	if got != "inside" {
		t.Errorf("ctr run prints %q", got)
	}
}

// AppArmor is on and has its parser, so that dockerd confines as on Debian.
func TestAppArmor(t *testing.T) {
	if got := read(t, "/sys/module/apparmor/parameters/enabled"); got != "Y" {
		t.Errorf("AppArmor enabled: %q, want Y", got)
	}
	if _, err := os.Stat("/sys/kernel/security/apparmor/profiles"); err != nil {
		t.Error(err)
	}
	if _, err := exec.LookPath("apparmor_parser"); err != nil {
		t.Error(err)
	}
}
