package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A subreaper must wait for orphans, and os/exec for its own children. Both
// wait on the same list, so children started here are written down, and the
// reaper leaves those alone.
var children = struct {
	sync.Mutex
	started map[int]bool
}{started: map[int]bool{}}

// StartCommand is cmd.Start for a test process that reaps orphans.
func StartCommand(cmd *exec.Cmd) error {
	children.Lock()
	defer children.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	children.started[cmd.Process.Pid] = true
	return nil
}

// WaitCommand is cmd.Wait for a command begun by StartCommand.
func WaitCommand(cmd *exec.Cmd) error {
	err := cmd.Wait()
	children.Lock()
	delete(children.started, cmd.Process.Pid)
	children.Unlock()
	return err
}

// Output runs a helper command and returns what it printed; the error carries
// the standard error's text.
func Output(cmd *exec.Cmd) (string, error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := StartCommand(cmd); err != nil {
		return "", err
	}
	if err := WaitCommand(cmd); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

func reapForever() {
	exited := make(chan os.Signal, 1)
	signal.Notify(exited, unix.SIGCHLD)
	// SIGCHLD coalesces, and one may arrive before the orphan is ours.
	tick := time.NewTicker(50 * time.Millisecond)
	for {
		select {
		case <-exited:
		case <-tick.C:
		}
		reapOrphans()
	}
}

func reapOrphans() {
	children.Lock()
	defer children.Unlock()
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		data, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && !children.started[pid] {
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
			}
		}
	}
}
