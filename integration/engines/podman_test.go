//go:build engines

package engines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Debian's podman drives the runtime without containerd, through conmon.
func TestPodman(t *testing.T) {
	p := newPodman(t, "--runtime", theRing.runtimeBinary())
	run := podmanRun()
	t.Run("run", func(t *testing.T) {
		p.try(t, append(run, "--rm", busybox, "sh", "-c", "echo out; exit 3")...).want(t, 3, "out")
	})
	t.Run("missing program", func(t *testing.T) {
		p.try(t, append(run, "--rm", busybox, "nosuch")...).want(t, 127, "executable file not found in $PATH")
	})
	t.Run("terminal", func(t *testing.T) {
		s := p.terminal(t, append(run, "--rm", "--interactive", "--tty", busybox, "sh")...)
		useTerminal(s)
		s.wantEnd(7)
	})
	t.Run("life", func(t *testing.T) { podmanLife(t, p, run) })
}

// newPodman is podman with the flags that name the runtime, and the image.
func newPodman(t *testing.T, runtime ...string) client {
	t.Helper()
	if err := theRing.install(); err != nil {
		t.Fatal(err)
	}
	p := client{"podman", append([]string{
		"--root", theRing.path("podman", "root"), "--runroot", theRing.path("podman", "run"),
		"--tmpdir", theRing.path("podman", "tmp"),
		"--cgroup-manager=cgroupfs", "--events-backend=none", "--storage-driver=overlay",
	}, runtime...)}
	t.Cleanup(func() { forgetPodman(t) })
	p.must(t, "import", rootfsTar(), busybox)
	return p
}

// podmanRun is "podman run" up to the image and flags of a test's own.
func podmanRun() []string {
	return []string{"run", "--network=none", "--pull=never", "--cgroup-parent=/" + theRing.name, "--log-driver=k8s-file"}
}

// forgetPodman removes what podman itself leaves for its next command, on any
// host: its store mounted on itself, and the cgroup that conmon was in.
func forgetPodman(t *testing.T) {
	t.Helper()
	if err := unix.Unmount(theRing.path("podman", "root", "overlay"), unix.MNT_DETACH); err != nil && err != unix.EINVAL {
		t.Error(err) // EINVAL: this time it had not.
	}
	for _, root := range cgroupRoots() {
		if err := removeCgroup(filepath.Join(root, theRing.name, "conmon")); err != nil {
			t.Error(err)
		}
	}
}

// Podman's life cycle has no shim: each command is a new process that runs the
// runtime, and conmon holds the container meanwhile.
func podmanLife(t *testing.T, p client, run []string) {
	id := p.must(t, append(run, "--detach", busybox, "sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done")...)
	t.Cleanup(func() { p.quietly("rm", "--force", id) })
	eventually(t, "logs", "ready\n", func() string { return p.try(t, "logs", id).out })
	p.try(t, "exec", id, "sh", "-c", "exit 5").want(t, 5)
	p.must(t, "pause", id)
	p.must(t, "unpause", id)
	if out := p.must(t, "top", id); !strings.Contains(out, "trap") {
		t.Errorf("top: got %q, want the shell's command line", out)
	}
	p.must(t, "stop", id)
	if got := p.must(t, "inspect", "--format", "{{.State.ExitCode}}", id); got != "9" {
		t.Errorf("exit code: got %s, want 9", got)
	}
	p.must(t, "rm", id)
	if _, err := os.Stat(filepath.Join("/run/libpod", id)); err == nil {
		t.Errorf("podman's folder of %s is still there", id)
	}
}
