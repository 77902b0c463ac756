package sampler

import (
	"fmt"
	"time"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/state"
)

// cleanupPatience is how long the rest of a container may take to be gone once
// it was killed (S-137).
const cleanupPatience = 2 * time.Second

// Clear kills what is left in the cgroup of a container whose init has ended, and
// waits until nothing is: what had left its session or its parent, and what an
// exec had left (S-136). It fails with [errcode.CleanupIncomplete].
func Clear(dirs map[string]string) error {
	var left int
	gone := func() bool {
		pids, _ := cgroups(dirs).pids()
		left = len(pids)
		return left == 0
	}
	if gone() {
		return nil
	}
	var err error
	if poll(cleanupPatience, func() bool { err = cgroups(dirs).kill(); return gone() }) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("saw %d processes in the cgroup %v after they were killed, want none; one may wait for a device", left, cleanupPatience)
	}
	return errcode.Wrap(errcode.CleanupIncomplete, "clear the cgroup", err)
}

// poll asks until done says so, ever more slowly: what was killed is mostly gone
// within a millisecond.
func poll(patience time.Duration, done func() bool) bool {
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; !done(); pause = min(2*pause, 100*time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause) //nolint:forbidigo // a cgroup of v1 has no event for its last process
	}
	return true
}

// End kills the container and says why, and returns when its init has ended: a
// process that waits for a device takes its time.
func (p *Plan) End(dir string, reason state.Reason, detail string) {
	// Without a mark it would be taken for an end by signal; that is no reason to
	// let it live.
	_ = state.Mark(dir, reason, detail)
	init, err := p.Init.open()
	if err != nil {
		return // ended
	}
	defer init.close()
	for ended := false; !ended; {
		ended = poll(cleanupPatience, func() bool { p.killOnce(init); return init.hasEnded() })
	}
}

// killOnce kills all of the container. Where init has a pid namespace of its own
// the kernel kills that with it.
func (p *Plan) killOnce(init *handle) {
	_ = cgroups(p.Cgroups).kill() // asked for again, until it did
	init.kill()                   // wherever the container's cgroup is gone to
}
