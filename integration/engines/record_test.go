//go:build engines

package engines

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// record names everything of one ring that outlives its processes. It is on
// disk before the first of them exists.
type record struct {
	Pid   int
	Start string // start time in /proc/PID/stat, so that a reused pid is not taken for the ring
	Name  string // cgroup parent and containerd namespace
	Dir   string
}

func recordsDir() string { return filepath.Join(cacheDir(), "engines") }

func (r record) path() string {
	return filepath.Join(recordsDir(), fmt.Sprintf("ring-%d.json", r.Pid))
}

// newRecord makes the ring's folder and writes down whose it is.
func newRecord() (record, error) {
	pid := os.Getpid()
	// Short, because paths of unix sockets end at 107 bytes.
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("sage-engines-%d", pid))
	rec := record{Pid: pid, Start: startTime(pid), Name: filepath.Base(dir), Dir: dir}
	text, err := json.Marshal(rec)
	if err != nil {
		return rec, err
	}
	if err := os.MkdirAll(recordsDir(), 0o700); err != nil {
		return rec, err
	}
	if err := os.WriteFile(rec.path(), text, 0o600); err != nil {
		return rec, err
	}
	return rec, os.Mkdir(dir, 0o711)
}

// startTime is field 22 of /proc/PID/stat; empty when there is no such process.
func startTime(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The command name is in parentheses and may hold spaces.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	return fields[19]
}

// removeStale removes what rings left that were killed.
func removeStale() error {
	paths, err := filepath.Glob(filepath.Join(recordsDir(), "ring-*.json"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := removeIfDead(path); err != nil {
			return err
		}
	}
	return nil
}

func removeIfDead(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var rec record
	if err := json.Unmarshal(text, &rec); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if startTime(rec.Pid) == rec.Start {
		return nil
	}
	return rec.remove()
}

// keepLogs saves what the daemons of a failed ring said, in place of those of
// the failed ring before.
func (r record) keepLogs() {
	logs, _ := filepath.Glob(filepath.Join(r.Dir, "*.log"))
	for _, log := range logs {
		to := filepath.Join(recordsDir(), "failed-"+filepath.Base(log))
		text, err := os.ReadFile(log)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		complain("the log of a daemon is in "+to, err)
	}
}

// remove deletes the ring's cgroups, its folder and, last, the record itself.
func (r record) remove() error {
	for _, root := range cgroupRoots() {
		if err := removeCgroup(filepath.Join(root, r.Name)); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(r.Dir); err != nil {
		return err
	}
	return os.Remove(r.path())
}

// removeCgroup removes a cgroup and those below it, deepest first. Processes
// of a namespace that was torn down stay in it for a moment: hence the wait.
func removeCgroup(dir string) error {
	dirs := cgroupsBelow(dir)
	slices.Reverse(dirs)
	for _, d := range dirs {
		var err error
		poll(10*time.Second, func() bool {
			err = os.Remove(d)
			return err == nil || errors.Is(err, fs.ErrNotExist)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// poll asks until done says yes or the limit is over, and gives the last answer.
func poll(limit time.Duration, done func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(25 * time.Millisecond) {
		if done() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
