package sampler

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

// cgroups are the directories of one container's cgroup, by controller; one
// under "" for cgroup v2.
type cgroups map[string]string

// pids lists the processes in any of them, and says whether there is one to ask.
func (c cgroups) pids() (pids []int, known bool) {
	seen := map[int]bool{}
	for _, dir := range c {
		data, err := sys.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue // gone, or never made: nobody is in there
		}
		known = true
		for line := range strings.Lines(string(data)) {
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			// 0 is a process of a pid namespace that is not below ours.
			if err == nil && pid > 0 && !seen[pid] {
				seen[pid] = true
				pids = append(pids, pid)
			}
		}
	}
	return pids, known
}

// held says whether a controller limits the container to at most the policy's
// number: v1 and v2 are the files' names.
func (c cgroups) held(controller, v1, v2 string, most int64) bool {
	dir, file := c[controller], v1
	if dir == "" {
		dir, file = c[""], v2
	}
	data, err := sys.ReadFile(filepath.Join(dir, file))
	if dir == "" || err != nil {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(data)), " ") // cpu.max: quota and period
	n, err := strconv.ParseInt(first, 10, 64)
	return err == nil && n > 0 && n <= most
}

// Unheld takes from l what the kernel holds for the container in cgroup dirs.
func Unheld(dirs map[string]string, l Limits) Limits {
	c := cgroups(dirs)
	if c.held("memory", "memory.limit_in_bytes", "memory.max", l.MemoryBytes) {
		l.MemoryBytes = 0
	}
	if c.held("pids", "pids.max", "pids.max", l.Processes) {
		l.Processes = 0
	}
	if c.held("cpu", "cpu.cfs_quota_us", "cpu.max", l.CPUQuota) {
		l.CPUQuota = 0
	}
	return l
}

// counters of the events that explain an end. They go with the cgroup.
type counters struct {
	oomKills int64 // processes that the kernel killed for want of memory
	pidsMax  int64 // forks that failed for pids.max
	diskFull bool  // of the project quota, which no cgroup counts
}

func (c cgroups) events() (e counters) {
	// On a hybrid host there is a directory under "" too, with none of these.
	if dir, ok := c["memory"]; ok {
		e.oomKills = counter(dir, "memory.oom_control", "oom_kill")
	} else {
		e.oomKills = counter(c[""], "memory.events", "oom_kill")
	}
	dir, ok := c["pids"]
	if !ok {
		dir = c[""]
	}
	e.pidsMax = counter(dir, "pids.events", "max")
	return e
}

// counter reads one line of a flat keyed file (cgroups(7)), 0 where there is none.
func counter(dir, file, key string) int64 {
	if dir == "" {
		return 0 // else the file would be looked for where we are
	}
	data, err := sys.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == key {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}

// OOMKilled says whether the kernel killed anything in the container's cgroup for
// want of memory. It is to be asked before the cgroup is removed.
func OOMKilled(dirs map[string]string) bool { return cgroups(dirs).events().oomKills > 0 }

// kill kills what is in the cgroup, once. It is to be repeated until nothing is.
func (c cgroups) kill() error {
	// A process that the freezer of cgroup v1 holds dies only once it is thawed,
	// whoever sends the signal. Under v2 it dies, and libcontainer takes a container
	// for paused as long as its cgroup is frozen, whatever is in it.
	defer c.thaw()
	for _, dir := range c {
		// Linux 5.14. On a hybrid host the v2 hierarchy has it beside those of v1.
		err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	c.freeze("FROZEN") // so that nothing forks while it is listed
	pids, _ := c.pids()
	for _, pid := range pids {
		c.signalOne(pid, unix.SIGKILL)
	}
	return nil
}

func (c cgroups) thaw() {
	c.freeze("THAWED")
	if dir, ok := c[""]; ok {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("0"), 0)
	}
}

func (c cgroups) freeze(state string) {
	if dir := c["freezer"]; dir != "" {
		_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte(state), 0)
	}
}

// signalOne looks again whether the number is still of the container, once it
// holds what cannot become another's.
func (c cgroups) signalOne(pid int, s unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // ended meanwhile
	}
	defer unix.Close(fd)
	if pids, _ := c.pids(); slices.Contains(pids, pid) {
		_ = unix.PidfdSendSignal(fd, s, nil, 0)
	}
}
