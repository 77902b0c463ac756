package main

import (
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

// TestRunReaping orphans a process and expects its pid to be gone, not a
// zombie, while the child that orphaned it still runs and keeps its own status.
func TestRunReaping(t *testing.T) {
	if err := adoptOrphans(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	// The middle shell ends at once, so that its sleep is an orphan.
	cmd := exec.Command("sh", "-c", `sh -c 'sleep 0.05 & echo $! >"$0"' "$1"; sleep 1; ! kill -0 "$(cat "$1")" 2>/dev/null || exit 3; exit 7`, "sh", file)
	start := time.Now()
	err := runReaping(cmd)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Fatalf("child ended with %v after %v, want exit status 7 (3: the orphan was still there)", err, time.Since(start))
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("orphan %d: %v, want %v", pid, err, syscall.ESRCH)
	}
}
