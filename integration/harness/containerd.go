package harness

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
)

// ContainerdOptions is how a test's containerd differs from the default.
type ContainerdOptions struct {
	Dir string // of all its data; may not exist
	// HostFile is the path of the host configuration that its sage uses; empty
	// for the machine's own.
	HostFile string
}

// Containerd is a containerd with the runtime types io.containerd.sage.v2 and
// io.containerd.runc.v2.
type Containerd struct {
	Daemon *Daemon
	Socket string
	// Runtime is what to pass as --runc-binary, or as BinaryName.
	Runtime string
	// ShimConfig is what to pass as --runtime-config-path to ctr, which takes
	// --runc-binary for the runc shim alone.
	ShimConfig string
	dir        string
}

var containerdConfig = template.Must(template.New("containerd").Parse(`version = 3
root = "{{.}}/root"
state = "{{.}}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"]
[grpc]
address = "{{.}}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "{{.}}/opt"
`))

// StartContainerd starts one for a test, without CRI.
func StartContainerd(tb testing.TB, o ContainerdOptions) *Containerd {
	tb.Helper()
	// Closed to others, as containerd would make it, a container's own users
	// could not reach its root.
	if err := os.MkdirAll(o.Dir, 0o711); err != nil {
		tb.Fatalf("harness: %v", err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(o.Dir); err != nil {
			tb.Errorf("harness: containerd left something that is in use: %v", err)
		}
	})
	var text bytes.Buffer
	config := filepath.Join(o.Dir, "config.toml")
	err := containerdConfig.Execute(&text, o.Dir)
	if err == nil {
		err = os.WriteFile(config, text.Bytes(), 0o600)
	}
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	c := &Containerd{Socket: filepath.Join(o.Dir, "containerd.sock"), Runtime: sageWrapper(tb, o.Dir, o.HostFile), dir: o.Dir}
	c.ShimConfig = shimOptions(tb, o.Dir, c.Runtime)
	c.Daemon = startDaemon(tb, c.command(tb), filepath.Join(o.Dir, "containerd.log"), c.answers(tb))
	return c
}

func (c *Containerd) command(tb testing.TB) *exec.Cmd {
	tb.Helper()
	return engineCommand(tb, c.dir, "containerd", "--config", filepath.Join(c.dir, "config.toml"))
}

func (c *Containerd) answers(tb testing.TB) func() error {
	return func() error {
		_, err := Output(c.Ctr(tb, "version"))
		return err
	}
}

// Restart ends it as a crash would, and starts it again on what it has.
func (c *Containerd) Restart(tb testing.TB) {
	tb.Helper()
	c.Daemon.Kill()
	c.Daemon.run(tb, c.command(tb), c.answers(tb))
}

// ImportBusybox gives it BusyboxImage, in the namespace "default".
func (c *Containerd) ImportBusybox(tb testing.TB) {
	tb.Helper()
	tar, err := busyboxTar(tb)
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	rootfs, err := os.ReadFile(tar)
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	archive, err := ImageArchive(BusyboxImage, rootfs, []string{"sh"})
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	cmd := c.Ctr(tb, "images", "import", "--snapshotter", "overlayfs", "-")
	cmd.Stdin = bytes.NewReader(archive)
	if _, err := Output(cmd); err != nil {
		tb.Fatalf("harness: %v", err)
	}
}

// Ctr is containerd's own client.
func (c *Containerd) Ctr(tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	return engineCommand(tb, c.dir, "ctr", append([]string{"--address", c.Socket}, args...)...)
}

// Nerdctl is Docker's command line on this containerd, for the images that ctr
// sees.
func (c *Containerd) Nerdctl(tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	return engineCommand(tb, c.dir, "nerdctl", append([]string{
		"--address", c.Socket, "--namespace", "default", "--cgroup-manager", "cgroupfs",
		"--data-root", filepath.Join(c.dir, "nerdctl"), "--hosts-dir", filepath.Join(c.dir, "hosts"),
		"--cni-path", filepath.Join(Cache(tb), "peers", "bin", "cni"), "--cni-netconfpath", filepath.Join(c.dir, "cni"),
	}, args...)...)
}

// Must runs the client and returns what it printed, without the last newline.
func (c *Containerd) Must(tb testing.TB, args ...string) string {
	tb.Helper()
	out, err := Output(c.Ctr(tb, args...))
	if err != nil {
		tb.Fatalf("ctr %s: %v; the end of its log:\n%s", args[0], err, c.Daemon.Tail(10))
	}
	return strings.TrimSpace(out)
}
