//go:build qemu

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These boot guests that end badly, or try to: a ring that could pass then would
// prove nothing. Each takes a boot: go test -tags qemu ./integration/vm

// tool is this command, built as "go run" would.
func tool(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vm")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// runScript runs it in a guest and returns the exit status and all output.
func runScript(t *testing.T, script string, flags ...string) (int, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool(t), append([]string{"-script", file}, flags...)...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit == nil {
		return 0, string(out)
	}
	return exit.ExitCode(), string(out)
}

// A kernel that panics after a job said it is fine is a failure, with the
// kernel's last words.
func TestPanicFails(t *testing.T) {
	code, out := runScript(t, "#!/bin/sh\necho PASS; echo ok\nsleep 1; echo c >/proc/sysrq-trigger\nsleep 60\n")
	if code != 1 || !strings.Contains(out, "without an answer") || !strings.Contains(out, "Kernel panic") {
		t.Errorf("exit status %d, want 1 and the panic in:\n%s", code, out)
	}
}

// Killing what runs the jobs does not pass either, and the bound holds for a
// guest that does nothing.
func TestBoundHolds(t *testing.T) {
	began := time.Now()
	code, out := runScript(t, "#!/bin/sh\necho begun; sleep 1000\n", "-timeout", "1m")
	if code != 1 || !strings.Contains(out, "begun") || !strings.Contains(out, "killed at its bound") {
		t.Errorf("exit status %d, want 1 and the bound in:\n%s", code, out)
	}
	if took := time.Since(began); !strings.Contains(out, "waiting") && took > 2*time.Minute {
		t.Errorf("took %v, want a minute and a little", took)
	}
}

// What the guest writes is not on the host, whichever way it tries; output is
// whole; a status comes out as it is.
func TestGuestCannotWrite(t *testing.T) {
	marker := "/sage-vm-marker-" + strconv.Itoa(os.Getpid())
	code, out := runScript(t, `#!/bin/sh
echo x >`+marker+` && test -e `+marker+` && echo written
mkdir /run/again && mount -t 9p -o trans=virtio,version=9p2000.L sage.root /run/again; mount -o remount,rw /run/again
echo x >/run/again`+marker+` && echo "the host is writable"
seq 200000
sleep 100 &
exit 43
`)
	if _, err := os.Lstat(marker); err == nil {
		_ = os.Remove(marker)
		t.Error("the guest has written to the host's root")
	}
	if code != 43 || !strings.Contains(out, "written") || strings.Contains(out, "the host is writable") {
		t.Errorf("exit status %d, want 43", code)
	}
	if got := strings.Count(out, "\n"); got < 200000 || !strings.Contains(out, "\n199999\n200000\n") {
		t.Errorf("%d lines came out, want 200000", got)
	}
}

// A command that is killed takes its guest along, and the next clears its disks.
func TestKilledCommandEndsGuest(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), tool(t), "-script", "/bin/true")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	for len(childrenOf(pid)) == 0 {
		time.Sleep(20 * time.Millisecond)
		if syscall.Kill(cmd.Process.Pid, 0) != nil {
			t.Fatalf("it ended: %s", said.String())
		}
	}
	qemu := childrenOf(pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for range 100 {
		if _, err := os.Stat("/proc/" + qemu[0]); err != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("process %s is still there", qemu[0])
}

// childrenOf lists the emulators among a process's children.
func childrenOf(pid string) []string {
	var found []string
	lists, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, list := range lists {
		data, _ := os.ReadFile(list)
		for child := range strings.FieldsSeq(string(data)) {
			if comm, err := os.ReadFile("/proc/" + child + "/comm"); err == nil && strings.HasPrefix(string(comm), "qemu") {
				found = append(found, child)
			}
		}
	}
	return found
}
