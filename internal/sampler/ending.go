package sampler

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/quota/xfs"
)

// signalled is what a shell adds to the number of a signal that ended a process.
const signalled = 128

// maxSignal is the largest number of a signal (signal(7)).
const maxSignal = 64

// Settle says how the container ended whose state directory is dir. status is as
// a shell would have it. It is to be called before the container's cgroup, dirs,
// is removed, since the kernel's counters go with it.
func Settle(dir string, dirs map[string]string, status int) state.Ending {
	mark, _ := state.Marked(dir) // unreadable, it is as good as none
	seen := cgroups(dirs).events()
	seen.diskFull = status != 0 && diskFull(dir)
	e := judge(status, mark, seen)
	e.Status, e.Time = &status, time.Now().UTC()
	return e
}

// judge believes a mark only of what a kill has ended: a program can end by
// itself while its time runs out. Not so one of too much output, which is cut
// however the program ended: the pipe may hold what it wrote last. Of one that
// failed while it was at a limit, that is the reason: it need not have been, but
// who looks for why it failed has to know.
func judge(status int, mark *state.Ending, seen counters) state.Ending {
	killed := status == signalled+int(unix.SIGKILL)
	e := state.Ending{Reason: state.Exited}
	switch {
	case mark != nil && (killed || mark.Reason == state.OutputLimit):
		return state.Ending{Reason: mark.Reason, Detail: mark.Detail}
	case killed && seen.oomKills > 0:
		e.Reason = state.OOMKilled
	case status == signalled+int(unix.SIGXFSZ):
		e.Reason = state.FileSizeLimit
	case status != 0 && !killed && seen.diskFull:
		e.Reason = state.DiskQuota
	case status != 0 && !killed && seen.pidsMax > 0:
		e.Reason = state.PidsLimit
	case status > signalled && status <= signalled+maxSignal:
		e.Reason = state.Signaled
	}
	e.Detail = seen.detail()
	return e
}

// detail is what may have led to the end, or not: a program can live with both.
func (c counters) detail() string {
	var notes []string
	if c.oomKills > 0 {
		notes = append(notes, fmt.Sprintf("the kernel killed %d of its processes for want of memory", c.oomKills))
	}
	if c.diskFull {
		notes = append(notes, "it had used up its disk quota")
	}
	if c.pidsMax > 0 {
		notes = append(notes, fmt.Sprintf("max_processes kept it from a process %d times", c.pidsMax))
	}
	return strings.Join(notes, "; ")
}

// nearFull is how far below its limit a project can be whose container cannot
// write any more: XFS reserves blocks ahead of a file's end, and lets go of them
// later.
const nearFull = 64 << 10

// diskFull says whether the container whose state directory is dir has used up
// its project; false where it has none, or nobody can tell.
func diskFull(dir string) bool {
	record, err := state.Load(dir)
	if err != nil || record.Disk == nil || len(record.Disk.Places) == 0 {
		return false
	}
	m, err := xfs.Open(record.Disk.Mount)
	if err != nil {
		return false
	}
	defer m.Close()
	r, err := m.Find(xfs.Owner{ID: record.ID, Root: record.Disk.Root})
	if err != nil {
		return false
	}
	u, err := m.Usage(r.Project)
	return err == nil && (u.Bytes+nearFull >= u.Hard.Bytes || u.Inodes >= u.Hard.Inodes)
}

// Unseen is [Settle] for who is not told the status, since another process is the
// container's parent. It gives no reason where it knows none.
func Unseen(dir string) state.Ending {
	var dirs cgroups
	if p, err := Load(dir); err == nil && p != nil {
		dirs = p.Cgroups
	}
	mark, _ := state.Marked(dir)
	e := state.Ending{Time: time.Now().UTC()}
	switch seen := dirs.events(); {
	case mark != nil:
		e.Reason, e.Detail = mark.Reason, mark.Detail
	case seen.oomKills > 0:
		e.Reason, e.Detail = state.OOMKilled, seen.detail()
	}
	return e
}

// Abandon kills a container that nothing watches any more.
func Abandon(p *Plan, dir string) {
	_ = state.Mark(dir, state.SamplerLost, "the process that watched it died")
	init, err := p.Init.open()
	if err != nil {
		return // ended
	}
	defer init.close()
	poll(cleanupPatience, func() bool { p.killOnce(init); return init.hasEnded() })
}
