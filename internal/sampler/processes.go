package sampler

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// processes are what a look at the container's processes gave.
type processes struct {
	pids    []int
	rss     int64 // bytes, shared pages once for each process that has them
	threads int64
	cpu     time.Duration // of those that are there now
}

// clockTick is the unit of proc_pid_stat(5): USER_HZ is 100 on every
// architecture that sage has.
const clockTick = 10 * time.Millisecond

// look lists the container's processes. There is always a cgroup of some
// hierarchy, as libcontainer starts nothing without.
func (p *Plan) look() ([]int, error) {
	pids, known := cgroups(p.Cgroups).pids()
	if !known {
		return nil, errors.New("saw no cgroup of the container's, want one to list its processes")
	}
	return pids, nil
}

// add reads what the processes use. Those that ended meanwhile use nothing.
func (p *processes) add() error {
	page := int64(os.Getpagesize())
	for _, pid := range p.pids {
		s, err := readStat(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		p.rss += s.rss * page
		p.threads += s.threads
		p.cpu += time.Duration(s.ticks) * clockTick
	}
	return nil
}

// signal sends s to every one.
func (p *Plan) signal(s unix.Signal) {
	c := cgroups(p.Cgroups)
	pids, _ := c.pids()
	for _, pid := range pids {
		c.signalOne(pid, s)
	}
}
