package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runc/libcontainer"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// killGroup ends whatever is in the container's cgroup, also what forks faster
// than it can be killed, or is not in its pid namespace yet (S-134, S-136).
func killGroup(dir string) { killBy(openKill(dir)) }

// openKill is nil on cgroup v1, where there is no such file, and killing init has
// to do.
func openKill(dir string) *os.File {
	if dir == "" || !cgroups.IsCgroup2UnifiedMode() {
		return nil
	}
	// Never created: a kernel without the file has none.
	f, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return nil
	}
	return f
}

func killBy(f *os.File) {
	if f != nil {
		_, _ = f.WriteString("1")
		_ = f.Close()
	}
}

// killRest gives what ends the rest of a container under a policy; without one it
// is runc's way alone. It is to be asked for before init is killed: whoever waits
// for that one may remove the container then, and somebody else make another in a
// cgroup of the same name.
func (c *Container) killRest() (kill func(), err error) {
	kill = func() {}
	record, err := c.policy()
	if err != nil || record == nil {
		return kill, err
	}
	saved, err := c.c.State()
	if err == nil {
		f := openKill(saved.CgroupPaths[""])
		kill = func() { killBy(f) }
	}
	return kill, err
}

// pidsDir is the directory with the counters of the container's processes.
func pidsDir(s *libcontainer.State) string {
	return cmp.Or(s.CgroupPaths["pids"], s.CgroupPaths[""])
}

// explainExec says so where a process cannot be started because the container
// has as many as it may: libcontainer speaks of a resource that is temporarily
// unavailable, or of an init that died. With a few left that init would print
// the state of its Go runtime in place of an error, so it is not begun at all.
func (c *Container) explainExec(start func(*libcontainer.Process) error) func(*libcontainer.Process) error {
	return func(p *libcontainer.Process) error {
		saved, err := c.c.State()
		if err != nil {
			return err
		}
		dir := pidsDir(saved)
		current, most := count(dir, "pids.current"), count(dir, "pids.max")
		if most > 0 && most-current < execProcesses {
			return exhausted(most, errors.New("none was tried"))
		}
		before := refusedForks(dir)
		if err = start(p); err != nil && refusedForks(dir) > before {
			err = exhausted(most, err)
		}
		return err
	}
}

func exhausted(most int64, err error) error {
	return errcode.Wrap(errcode.ResourceExhausted, "start a process in the container",
		fmt.Errorf("resources.max_processes: the container has as many as it may, %d, less than the %d that it takes to start one more: %w", most, execProcesses, err))
}

// execProcesses is how many processes and threads an exec has at the least until
// its program runs: stages of runc init, and the threads of its Go runtime.
// Measured: with 4 left none starts, with 5 most do, as Go has a thread more or
// less; the others would print the state of that runtime in place of an error.
const execProcesses = 8

// count is the number in a file of a cgroup; 0 for none.
func count(dir, name string) int64 {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0 // "max"
	}
	return n
}

// refusedForks is how often the limit on processes has been met; 0 if unknown.
func refusedForks(dir string) int64 {
	data, err := os.ReadFile(filepath.Join(dir, "pids.events"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if n, ok := strings.CutPrefix(line, "max "); ok {
			count, _ := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
			return count
		}
	}
	return 0
}
