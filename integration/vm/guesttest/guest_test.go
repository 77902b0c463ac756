//go:build vm

package guesttest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
	"github.com/sage-sandbox/sage/integration/vm/plan"
)

func TestMain(m *testing.M) { harness.Main(m, harness.Root) }

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := harness.Output(exec.Command(program, args...))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The kernel is the one asked for, and no container's host passes as the guest.
func TestKernel(t *testing.T) {
	release := read(t, "/proc/sys/kernel/osrelease")
	t.Log("Linux", release, "on", read(t, "/proc/cmdline"))
	if want := os.Getenv("SAGE_VM"); want == "" || !strings.HasPrefix(release, want+".") {
		t.Errorf("kernel is %q, want %q, as SAGE_VM says", release, want)
	}
	if got := run(t, "systemd-detect-virt"); strings.TrimSpace(got) != "qemu" && strings.TrimSpace(got) != "kvm" {
		t.Errorf("systemd-detect-virt says %q, want qemu or kvm", got)
	}
}

// No v1 hierarchy is there to fall back on, and a cgroup made at the root has
// every controller that a limit needs.
func TestCgroups(t *testing.T) {
	for line := range strings.Lines(read(t, "/proc/mounts")) {
		if f := strings.Fields(line); f[2] == "cgroup" {
			t.Errorf("a v1 hierarchy is mounted: %s", line)
		}
	}
	dir := cgroup(t)
	for _, name := range []string{"cpu.max", "memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cgroup.kill"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// cgroup makes one at the root and removes it with the test.
func cgroup(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("/sys/fs/cgroup", harness.NewID())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Rmdir(dir); err != nil {
			t.Errorf("rmdir %s: %v", dir, err)
		}
	})
	return dir
}

// Swap is on, a cgroup may use it, and what it uses is counted: without this
// "no swap was used" would prove nothing.
func TestSwap(t *testing.T) {
	dir := cgroup(t)
	write(t, filepath.Join(dir, "memory.max"), "16M")
	cmd := exec.Command("sh", "-c", `echo 0 > "$0/cgroup.procs"; dd if=/dev/zero bs=48M count=1 | { sleep 1; tail -c1; }`, dir)
	// dd fills one buffer of three times the limit; the rest must be in swap
	// while it writes.
	peak := 0
	done := make(chan error, 1)
	go func() { _, err := harness.Output(cmd); done <- err }()
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			running = false
		default:
			peak = max(peak, number(t, filepath.Join(dir, "memory.swap.current")))
		}
	}
	if peak < 1<<20 {
		t.Errorf("memory.swap.current reached %d, want 1 MiB at least", peak)
	}
}

func number(t *testing.T, path string) int {
	t.Helper()
	n := 0
	for _, c := range read(t, path) {
		n = n*10 + int(c-'0')
	}
	return n
}

// The prepared disk counts and holds projects, and the other does neither.
func TestProjectQuota(t *testing.T) {
	state := run(t, "xfs_quota", "-x", "-c", "state -p", plan.QuotaXFS)
	if !strings.Contains(state, "Accounting: ON") || !strings.Contains(state, "Enforcement: ON") {
		t.Errorf("project quota of %s:\n%s", plan.QuotaXFS, state)
	}
	// It prints nothing for a file system without quotas.
	if state := run(t, "xfs_quota", "-x", "-c", "state -p", plan.PlainXFS); strings.Contains(state, "ON") {
		t.Errorf("project quota of %s:\n%s", plan.PlainXFS, state)
	}
	dir := filepath.Join(plan.QuotaXFS, harness.NewID())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	run(t, "xfs_quota", "-x", "-c", "project -s -p "+dir+" 77", "-c", "limit -p bhard=4m 77", plan.QuotaXFS)
	err := os.WriteFile(filepath.Join(dir, "file"), bytes.Repeat([]byte("x"), 8<<20), 0o644)
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("8 MiB under a limit of 4: %v, want ENOSPC", err)
	}
}

// Both disks are mounted as a host's are told to be.
func TestMountOptions(t *testing.T) {
	mounts := read(t, "/proc/mounts")
	for path, want := range map[string]string{plan.QuotaXFS: "prjquota", plan.PlainXFS: "noquota"} {
		_, line, found := strings.Cut(mounts, " "+path+" xfs ")
		line, _, _ = strings.Cut(line, "\n")
		for _, option := range []string{want, "nosuid", "nodev"} {
			if !found || !strings.Contains(line, option) {
				t.Errorf("%s is mounted %q, want %s in it", path, line, option)
			}
		}
	}
}

// Scratch is on the disk, for the root's upper layer is memory.
func TestScratch(t *testing.T) {
	if dir := harness.Scratch(t); !strings.HasPrefix(dir, plan.QuotaXFS+"/") {
		t.Errorf("scratch folder is %s, want one on %s", dir, plan.QuotaXFS)
	}
	if _, err := os.Stat("/etc/sage"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("/etc/sage: %v, want that it is not there", err)
	}
}

// What the runtime itself says of this machine, for whoever reads the log.
func TestCheck(t *testing.T) {
	cmd := exec.Command(harness.Sage(t), "check")
	out, err := cmd.CombinedOutput()
	t.Logf("sage-runtime check: %v\n%s", err, out)
	if len(out) == 0 {
		t.Error("sage-runtime check prints nothing")
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
