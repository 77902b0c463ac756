//go:build engines

package engines

import (
	"path/filepath"
	"strings"
	"testing"
)

// nerdctl is Docker's command line on plain containerd. It sets up networks
// itself, with CNI plugins that it runs as hooks of the OCI runtime.
type nerdctl struct {
	client
	runtime string
}

// Both ways of naming sage, and a network of our own that the two share.
func TestNerdctl(t *testing.T) {
	for _, runtime := range []string{theRing.runtimeBinary(), "io.containerd.sage.v2"} {
		t.Run(filepath.Base(runtime), func(t *testing.T) { nerdctlCases(t, newNerdctl(t, runtime)) })
	}
}

func newNerdctl(t *testing.T, runtime string) nerdctl {
	t.Helper()
	needContainerd(t)
	writeNetwork(t, theRing.path("cni-nerdctl"), "sage-test", "10.213.2.0/24")
	return nerdctl{client{"nerdctl", []string{
		"--address", theRing.containerdSocket(), "--namespace", theRing.name,
		"--data-root", theRing.path("nerdctl"), "--cgroup-manager", "cgroupfs",
		"--cni-path", theRing.cniDir(), "--cni-netconfpath", theRing.path("cni-nerdctl"),
		"--hosts-dir", theRing.path("hosts"),
	}}, runtime}
}

func nerdctlCases(t *testing.T, n nerdctl) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, nerdctl)
	}{
		{"run", nerdctlRun},
		{"bridge", nerdctlBridge},
		{"terminal", nerdctlTerminal},
		{"life", nerdctlLife},
		{"update", nerdctlUpdate},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, n) })
	}
}

func (n nerdctl) args(flags ...string) []string {
	return append([]string{"run", "--runtime", n.runtime, "--network=sage-test", "--pull=never"}, flags...)
}

func (n nerdctl) detached(t *testing.T, args ...string) string {
	t.Helper()
	id := n.must(t, n.args(append([]string{"--detach"}, args...)...)...)
	t.Cleanup(func() { n.quietly("rm", "--force", "--volumes", id) })
	return id
}

func nerdctlRun(t *testing.T, n nerdctl) {
	r := n.try(t, n.args("--rm", busybox, "sh", "-c", "echo out; exit 3")...)
	r.want(t, 3, "out")
	n.try(t, n.args("--rm", busybox, "nosuch")...).want(t, 1, "executable file not found in $PATH")
}

func nerdctlBridge(t *testing.T, n nerdctl) {
	server := n.detached(t, busybox, "nc", "-ll", "-p", "80", "-e", "echo", "hello over CNI")
	address := n.must(t, "inspect", "--format", "{{.NetworkSettings.IPAddress}}", server)
	if !strings.HasPrefix(address, "10.213.2.") {
		t.Fatalf("address: got %q, want one of 10.213.2.0/24", address)
	}
	eventually(t, "answer over the bridge", "hello over CNI\n", func() string {
		return n.try(t, n.args("--rm", busybox, "nc", "-w", "5", address, "80")...).out
	})
}

func nerdctlTerminal(t *testing.T, n nerdctl) {
	s := n.terminal(t, n.args("--rm", "--interactive", "--tty", busybox, "sh")...)
	useTerminal(s)
	s.wantEnd(7)
}

func nerdctlLife(t *testing.T, n nerdctl) {
	id := n.detached(t, busybox, "sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done")
	eventually(t, "logs", "ready\n", func() string { return n.try(t, "logs", id).out })
	n.try(t, "exec", id, "sh", "-c", "exit 5").want(t, 1, "exec failed with exit code 5")
	n.must(t, "pause", id)
	n.must(t, "unpause", id)
	n.must(t, "stop", id)
	if got := n.must(t, "inspect", "--format", "{{.State.ExitCode}}", id); got != "9" {
		t.Errorf("exit code: got %s, want 9", got)
	}
}

// ctr cannot change limits; nerdctl asks the task service for it.
func nerdctlUpdate(t *testing.T, n nerdctl) {
	id := n.detached(t, "--memory=64m", "--memory-swap=64m", "--pids-limit=40", busybox, "sleep", "1000")
	wantLimits(t, id, 64<<20, 40)
	n.must(t, "update", "--memory=96m", "--memory-swap=96m", "--pids-limit=50", id)
	wantLimits(t, id, 96<<20, 50)
}
