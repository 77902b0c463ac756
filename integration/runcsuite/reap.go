package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes the runner the parent of what tests orphan. Tests give a
// killed process two seconds to be gone, and a first process that reaps lazily
// (seen in a virtual machine: two seconds) fails them at random.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the subreaper: %w", err)
	}
	return nil
}

// reapUntil reaps orphans, but not the child that somebody else waits for,
// until stop is closed.
func reapUntil(stop <-chan struct{}, child int) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			reapOnce(child)
		}
	}
}

func reapOnce(child int) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil || pid == child {
				continue
			}
			// By pid, never -1: that would take the child's status too.
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}
