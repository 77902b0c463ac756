//go:build kernel

package sys_test

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

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSeccompFilters(t *testing.T) {
	c := start(t, "child-fifo", fifo(t), loadAllow, allow)
	c.ready(t, "wait_for_partner")
	got, err := sys.SeccompFilters(c.tid)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]byte{loadAllow, allow}, got); diff != "" {
		t.Errorf("filters, the one loaded first in front (-want +got):\n%s", diff)
	}
	for index, want := range [][]byte{loadAllow, allow} {
		if got, err := sys.SeccompFilter(c.tid, uint64(index)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("SeccompFilter(%d) = %v, %v, want %v", index, got, err, want)
		}
	}
	if _, err := sys.SeccompFilter(c.tid, 2); !errors.Is(err, unix.ENOENT) {
		t.Errorf("SeccompFilter(2) = %v, want ENOENT", err)
	}
}

// TestLargestFilter is the most that one filter may hold.
func TestLargestFilter(t *testing.T) {
	largest := append(bytes.Repeat(loadAllow[:8], 4095), allow...)
	c := start(t, "child-fifo", fifo(t), largest)
	c.ready(t, "wait_for_partner")
	got, err := sys.SeccompFilters(c.tid)
	if err != nil || len(got) != 1 || !bytes.Equal(got[0], largest) {
		t.Errorf("got %d filters, %v; want the one of %d bytes", len(got), err, len(largest))
	}
}

// TestFIFO: an init that waits for start in open(2) must not notice.
func TestFIFO(t *testing.T) {
	path := fifo(t)
	c := start(t, "child-fifo", path, allow)
	c.ready(t, "wait_for_partner")
	for range 100 {
		if _, err := sys.SeccompFilters(c.tid); err != nil {
			t.Fatal(err)
		}
	}
	if got := status(t, c.tid, "TracerPid"); got != "0" {
		t.Errorf("TracerPid is %s, want 0", got)
	}
	if got := read(t, path); got != "go" {
		t.Errorf("from the fifo got %q, want %q", got, "go")
	}
	if rest := c.line(t); rest != "" {
		t.Errorf("the child failed: %s", rest)
	}
}

// TestTraced: a thread has one tracer at most.
func TestTraced(t *testing.T) {
	c := start(t, "child-fifo", fifo(t), allow)
	c.ready(t, "wait_for_partner")
	sys.OnDyingThread(func() {
		if err := unix.PtraceSeize(c.tid); err != nil {
			t.Error(err)
		}
		_, err := sys.SeccompFilters(c.tid)
		if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "traced already") {
			t.Errorf("of a traced thread got %v, want EPERM and why", err)
		}
	})
	// The thread has ended and let go of it.
	if _, err := sys.SeccompFilters(c.tid); err != nil {
		t.Error(err)
	}
}

// TestStopped: who is stopped by job control stays so, and goes on by it.
func TestStopped(t *testing.T) {
	path := fifo(t)
	c := start(t, "child-fifo", path, allow)
	c.ready(t, "wait_for_partner")
	signalState := func(signal unix.Signal, state string) {
		if err := unix.Kill(c.tid, signal); err != nil {
			t.Fatal(err)
		}
		eventually(t, state, func() bool { return strings.HasPrefix(status(t, c.tid, "State"), state) })
	}
	signalState(unix.SIGSTOP, "T")
	for range 20 {
		if _, err := sys.SeccompFilters(c.tid); err != nil {
			t.Fatal(err)
		}
		eventually(t, "stopped again", func() bool { return status(t, c.tid, "State") == "T (stopped)" })
	}
	signalState(unix.SIGCONT, "S")
	if got := read(t, path); got != "go" {
		t.Errorf("from the fifo got %q, want %q", got, "go")
	}
}

// TestSignals: none is lost that comes while the thread is looked at.
func TestSignals(t *testing.T) {
	c := start(t, "child-echo", "", allow)
	c.ready(t, "")
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if _, err := sys.SeccompFilters(c.tid); err != nil {
				stopped <- err
				return
			}
		}
	}()
	for range 200 {
		if err := unix.Tgkill(c.tid, c.tid, unix.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		if got := c.line(t); got != "got one" {
			t.Fatalf("after a signal got %q", got)
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestFrozen: the freezer of cgroup v1 lets no thread stop.
func TestFrozen(t *testing.T) {
	path := fifo(t)
	c := start(t, "child-fifo", path, allow)
	c.ready(t, "wait_for_partner")
	group := freezer(t, c.tid)
	began := time.Now()
	_, err := sys.SeccompFilters(c.tid)
	if err == nil || !strings.Contains(err.Error(), "did not stop within 2s") {
		t.Errorf("of a frozen thread got %v, want that it did not stop", err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("took %v, want little more than 2 s", took)
	}
	if got := status(t, c.tid, "TracerPid"); got != "0" {
		t.Errorf("TracerPid is %s, want 0: it must be let go of", got)
	}
	freeze(t, group, "THAWED")
	if _, err := sys.SeccompFilters(c.tid); err != nil {
		t.Error(err)
	}
	if got := read(t, path); got != "go" {
		t.Errorf("from the fifo got %q, want %q", got, "go")
	}
}

// freezer makes a cgroup with a frozen process, and ends both with the test.
func freezer(t *testing.T, pid int) string {
	t.Helper()
	group := "/sys/fs/cgroup/freezer/sage-sys-" + strconv.Itoa(os.Getpid())
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatalf("this test needs the freezer of cgroup v1: %v", err)
	}
	t.Cleanup(func() {
		freeze(t, group, "THAWED")
		_ = unix.Kill(pid, unix.SIGKILL)
		eventually(t, "remove "+group, func() bool { return os.Remove(group) == nil })
	})
	if err := os.WriteFile(group+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0); err != nil {
		t.Fatal(err)
	}
	freeze(t, group, "FROZEN")
	return group
}

func freeze(t *testing.T, group, state string) {
	t.Helper()
	if err := os.WriteFile(group+"/freezer.state", []byte(state), 0); err != nil {
		t.Error(err)
	}
	eventually(t, state, func() bool { return read(t, group+"/freezer.state") == state+"\n" })
}

func TestNotThere(t *testing.T) {
	c := exec.Command("/proc/self/exe", "child-fifo", fifo(t))
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := sys.SeccompFilters(c.Process.Pid); !errors.Is(err, sys.ErrNoFilter) {
		t.Errorf("without a filter got %v, want %v", err, sys.ErrNoFilter)
	}
	_ = c.Process.Kill()
	eventually(t, "a zombie", func() bool { return status(t, c.Process.Pid, "State") == "Z (zombie)" })
	if _, err := sys.SeccompFilters(c.Process.Pid); err == nil {
		t.Error("of a zombie got filters, want an error")
	}
	// It is a child of this process, whose end must be left to its owner.
	if state, err := c.Process.Wait(); err != nil || state.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Errorf("Wait = %v, %v, want killed", state, err)
	}
	if _, err := sys.SeccompFilters(c.Process.Pid); !errors.Is(err, unix.ESRCH) {
		t.Errorf("of nobody got %v, want ESRCH", err)
	}
}

// TestDies: one that is killed while it is looked at is an error, and its end
// is left to its owner.
func TestDies(t *testing.T) {
	for range 20 {
		c := start(t, "child-fifo", fifo(t), allow)
		c.ready(t, "")
		go func() { _ = c.cmd.Process.Kill() }()
		for {
			if _, err := sys.SeccompFilters(c.tid); err != nil {
				break
			}
		}
		state, err := c.cmd.Process.Wait()
		if err != nil || state.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
			t.Fatalf("Wait = %v, %v, want killed", state, err)
		}
	}
}

// TestFilteredReader: a process under a filter may not read any.
func TestFilteredReader(t *testing.T) {
	c := start(t, "child-fifo", fifo(t), allow)
	c.ready(t, "wait_for_partner")
	reader := start(t, "child-read", strconv.Itoa(c.tid), allow)
	if got, want := reader.line(t), "ptrace(PTRACE_SECCOMP_GET_FILTER): permission denied"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := status(t, c.tid, "TracerPid"); got != "0" {
		t.Errorf("TracerPid is %s, want 0", got)
	}
}

// TestOnDyingThread: what is done to the thread goes with it.
func TestOnDyingThread(t *testing.T) {
	var tids []int
	for range 20 {
		sys.OnDyingThread(func() {
			tids = append(tids, unix.Gettid())
			if err := sys.LoadFilter(allow); err != nil {
				t.Error(err)
			}
		})
	}
	for _, tid := range tids {
		if err := unix.Tgkill(unix.Getpid(), tid, 0); !errors.Is(err, unix.ESRCH) {
			t.Errorf("thread %d is still there (%v)", tid, err)
		}
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		if got := status(t, tid, "Seccomp"); got != "0" {
			t.Errorf("thread %d has seccomp mode %s, want 0", tid, got)
		}
	}
}
