package sampler

import (
	"time"

	"golang.org/x/sys/unix"
)

// throttle stops a container for as long as it has run too much, where no
// controller of the kernel does it by itself (S-151).
type throttle struct {
	last    time.Time
	used    time.Duration // by the processes that were there then
	until   time.Time     // it is stopped
	stopped bool
}

// mostStop keeps a container that answers somebody from seeming dead.
const mostStop = time.Second

// throttle compares the time that was used since the last look with the share.
// Of processes that ended in between it does not know, and lets them pass.
func (w *Watch) throttle(now time.Time, used time.Duration) {
	t, quota := &w.cpu, w.plan.Limits.CPUQuota
	if quota == 0 {
		return
	}
	if t.stopped {
		if now.After(t.until) {
			w.thaw()
			t.last, t.used = now, used
		}
		return
	}
	if over := t.over(now, used, quota); over > 0 {
		t.until, t.stopped = now.Add(min(over, mostStop)), true
		w.plan.signal(unix.SIGSTOP)
	}
	t.last, t.used = now, used
}

// over is how long the container must rest to have used no more than its share.
func (t *throttle) over(now time.Time, used time.Duration, quota int64) time.Duration {
	if t.last.IsZero() || used <= t.used {
		return 0
	}
	granted := now.Sub(t.last) * time.Duration(quota) / 100_000
	if used-t.used <= granted {
		return 0
	}
	return (used - t.used - granted) * 100_000 / time.Duration(quota)
}

func (w *Watch) thaw() {
	if w.cpu.stopped {
		w.cpu.stopped = false
		w.plan.signal(unix.SIGCONT)
	}
}
