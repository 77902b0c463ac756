//go:build kernel

package sysmon

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestCalm shows by its effect that the thread whose slack is set is the one
// that wakes up all the time: with the slack of the others it does.
func TestCalm(t *testing.T) {
	tid := firstBesides()
	if got := slackOf(t, tid); got != slack {
		t.Fatalf("timer slack of thread %s: %s, want %s", tid, got, slack)
	}
	calm := wakeups(t, tid)
	writeSlack(t, tid, strconv.Itoa(int(given)))
	defer writeSlack(t, tid, slack)
	if hasty := wakeups(t, tid); hasty < 2*calm {
		t.Errorf("the thread woke up %d times with the slack of all threads and %d times with its own, want half at most", hasty, calm)
	}
}

// TestExact starts a process from a thread with the watchdog's slack.
func TestExact(t *testing.T) {
	var out []byte
	err := make(chan error)
	go func() {
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 1000000, 0)
		err <- Exact(func() (err error) {
			out, err = exec.Command("cat", "/proc/self/timerslack_ns").Output()
			return err
		})
	}()
	if err := <-err; err != nil {
		t.Fatal(err)
	}
	if got, want := strings.TrimSpace(string(out)), strconv.Itoa(int(given)); got != want {
		t.Errorf("timer slack of a process: %s, want that of this one, %s", got, want)
	}
}

// wakeups counts how often the thread went to sleep in a time in which more
// goroutines than there are processors sit in system calls, which is what lets
// Go's watchdog not rest.
func wakeups(t *testing.T, tid string) int {
	t.Helper()
	before, end := switches(t, tid), time.Now().Add(300*time.Millisecond)
	var busy sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		busy.Go(func() {
			for pause := (syscall.Timespec{Nsec: 200_000}); time.Now().Before(end); {
				_ = syscall.Nanosleep(&pause, nil)
			}
		})
	}
	busy.Wait()
	return switches(t, tid) - before
}

func switches(t *testing.T, tid string) int {
	t.Helper()
	_, after, _ := strings.Cut(read(t, fmt.Sprintf("/proc/self/task/%s/status", tid)), "\nvoluntary_ctxt_switches:")
	line, _, _ := strings.Cut(after, "\n")
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func slackOf(t *testing.T, tid string) string {
	t.Helper()
	return strings.TrimSpace(read(t, "/proc/"+tid+"/timerslack_ns"))
}

func writeSlack(t *testing.T, tid, ns string) {
	t.Helper()
	if err := os.WriteFile("/proc/"+tid+"/timerslack_ns", []byte(ns), 0); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
