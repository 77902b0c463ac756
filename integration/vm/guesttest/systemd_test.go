//go:build vm

package guesttest

import (
	"os"
	"strings"
	"testing"
)

// systemd is pid 1, answers on the bus, and manages the unified hierarchy.
func TestSystemd(t *testing.T) {
	if got := read(t, "/proc/1/comm"); got != "systemd" {
		t.Fatalf("pid 1 is %q, want systemd", got)
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		t.Error(err)
	}
	if got := run(t, "busctl", "get-property", "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
		"org.freedesktop.systemd1.Manager", "Virtualization"); !strings.Contains(got, "qemu") && !strings.Contains(got, "kvm") {
		t.Errorf("systemd believes to be in %s, want qemu or kvm", got)
	}
	if got := read(t, "/proc/self/cgroup"); !strings.HasPrefix(got, "0::/system.slice/sage-vm.service") {
		t.Errorf("the jobs' cgroup is %s", got)
	}
}

// A transient scope, as the runtime's systemd driver makes it, gets its limit in
// the kernel.
func TestSystemdScope(t *testing.T) {
	got := run(t, "systemd-run", "--scope", "--quiet", "-p", "MemoryMax=64M", "-p", "TasksMax=33",
		"sh", "-c", `cd /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup) && cat memory.max pids.max`)
	if want := "67108864\n33\n"; got != want {
		t.Errorf("limits of a scope: got %q, want %q", got, want)
	}
}
