package sampler

import (
	"errors"
	"fmt"
	"time"

	"github.com/sage-sandbox/sage/internal/state"
)

// sample looks once, and says whether the container must go.
func (w *Watch) sample(now time.Time) verdict {
	for _, look := range []func(time.Time) (string, error){w.sampleProcesses, w.sampleDisk} {
		over, err := look(now)
		switch {
		case errors.Is(err, errTooDeep):
			return verdict{state.SamplerLimit, "disk: " + err.Error()}
		case err != nil:
			return verdict{state.SamplerLost, err.Error()}
		case over != "":
			return verdict{state.SamplerLimit, over}
		}
	}
	return verdict{}
}

// sampleProcesses does nothing where the kernel's controllers hold all.
func (w *Watch) sampleProcesses(now time.Time) (over string, err error) {
	l := w.plan.Limits
	if l.MemoryBytes == 0 && l.Processes == 0 && l.CPUQuota == 0 {
		return "", nil
	}
	var p processes
	if p.pids, err = w.plan.look(); err != nil {
		return "", err
	}
	if err := p.add(); err != nil {
		return "", err
	}
	switch {
	case l.MemoryBytes > 0 && p.rss > l.MemoryBytes:
		return fmt.Sprintf("memory: saw %d bytes resident, want at most %d", p.rss, l.MemoryBytes), nil
	case l.Processes > 0 && p.threads > l.Processes:
		return fmt.Sprintf("processes: saw %d, want at most %d", p.threads, l.Processes), nil
	}
	w.throttle(now, p.cpu)
	return "", nil
}

func (w *Watch) sampleDisk(now time.Time) (over string, err error) {
	l := w.plan.Limits
	if l.DiskBytes == 0 || !w.disk.due(now, room(w.plan.Places), l) {
		return "", nil
	}
	pids, err := w.plan.look()
	if err != nil {
		return "", err
	}
	used, err := w.plan.usage(pids)
	w.disk.walked(now, time.Now(), used)
	if errors.Is(err, errOver) {
		return fmt.Sprintf("disk: saw more than %d bytes or %d files", l.DiskBytes, l.Entries), nil
	}
	return "", err
}

// schedule says when the disk is walked: often enough to matter, seldom enough
// not to be felt.
type schedule struct {
	last  time.Time // that a walk ended
	cost  time.Duration
	used  Usage // by the last walk
	room  Usage // on the file systems, then
	fresh bool  // room is to be taken from the next look
}

const (
	walkEvery = time.Second
	// walkQuiet is for when the file system has lost next to nothing since the
	// last walk: only somebody else, who frees as much, could hide a writer.
	walkQuiet  = 10 * time.Second
	walkShare  = 20 // a walk takes at most one part of so many of the time
	hurryShare = 4  // when the file system fills
)

// due asks for a walk each second, if it is cheap, and at once when the file
// system has lost half of what the container may still take: somebody writes.
func (s *schedule) due(now time.Time, free Usage, l Limits) bool {
	if s.fresh {
		s.room, s.fresh = free, false
	}
	if s.last.IsZero() {
		return true
	}
	every, share := walkEvery, time.Duration(walkShare)
	switch {
	case s.lost(free, l, 2):
		every, share = interval/2, hurryShare
	case !s.lost(free, l, 16):
		every = walkQuiet
	}
	return now.Sub(s.last) >= max(every, share*s.cost)
}

// lost says whether the file system has less room than at the last walk, by one
// part of so many of what the container may still take.
func (s *schedule) lost(free Usage, l Limits, part int64) bool {
	return s.room.Bytes-free.Bytes > (l.DiskBytes-s.used.Bytes)/part ||
		s.room.Entries-free.Entries > (l.Entries-s.used.Entries)/part
}

func (s *schedule) walked(began, end time.Time, used Usage) {
	s.last, s.cost, s.used, s.fresh = end, end.Sub(began), used, true
}
