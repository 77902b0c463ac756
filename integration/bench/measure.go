package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// measure is one thing that a user waits for.
type measure struct {
	name string
	// limit is the most that the ratio to runc may be.
	limit float64
	// policy is for the profile sage, in place of sage as runc.
	policy bool
	// agent is for the profile agent with an allowlist: a bridge, a proxy and a
	// guard for every container.
	agent bool
	// times multiplies the number of pairs, for what is short and so noisy.
	times int
	// prepare, if any, is done once for each runtime and not timed.
	prepare func(context.Context, *contender) error
	once    func(context.Context, *contender) (sample, error)
}

var measures = []measure{
	{name: "--version", limit: 1.00, times: 5, once: version},
	{name: "run /bin/true", limit: 1.03, times: 1, once: runTrue},
	{name: "create + start + delete", limit: 1.03, times: 1, once: createStartDelete},
	{name: "exec /bin/true", limit: 1.03, times: 1, prepare: runSleeper, once: execTrue},
	{name: "run /bin/true (profile sage)", limit: 1.03, policy: true, times: 1, once: runTrue},
	{name: "run /bin/true (profile agent, allowlist)", limit: 1.15, agent: true, times: 1, once: runTrue},
	{name: "exec /bin/true (profile sage)", limit: 1.05, policy: true, times: 1, prepare: runSleeper, once: execTrue},
	{name: "getppid loop (profile sage)", limit: 1.02, policy: true, times: 1, once: timeLoop("getppid")},
	{name: "ioctl loop (profile sage)", limit: 1.05, policy: true, times: 1, once: timeLoop("ioctl")},
	{name: "ioctl loop (profile sage; runc with a filter of one rule)", limit: 1.05, policy: true, times: 1, once: timeLoops("ioctl-ruled", "ioctl")},
}

// pair is one sample of each runtime, taken one right after the other.
type pair struct {
	runc, sage sample
}

// compare takes the pairs of one measure. Which runtime goes first is drawn by
// lot, and the other one goes first in the next pair: who comes second finds
// the kernel in the state that the first left, and each must do so as often.
func (l *lab) compare(ctx context.Context, m measure, n int) ([]pair, error) {
	both := l.rivals(m)
	for _, r := range both {
		if m.prepare != nil {
			if err := m.prepare(ctx, r); err != nil {
				return nil, err
			}
		}
		if _, err := m.once(ctx, r); err != nil { // the first one reads the disk
			return nil, err
		}
	}
	pairs := make([]pair, n*m.times)
	for i, first := range order(len(pairs)) {
		if err := pairs[i].take(ctx, m, both, first); err != nil {
			return nil, err
		}
	}
	return pairs, nil
}

func (l *lab) rivals(m measure) [2]*contender {
	switch {
	case m.policy:
		return [2]*contender{l.runc, l.policy}
	case m.agent:
		return [2]*contender{l.runc, l.agent}
	}
	return [2]*contender{l.runc, l.sage}
}

// order says for each pair which turn comes first, 0 or 1.
func order(n int) []int {
	turns := make([]int, n)
	for i := range turns {
		if i%2 == 0 {
			turns[i] = rand.IntN(2)
		} else {
			turns[i] = 1 - turns[i-1]
		}
	}
	return turns
}

func (p *pair) take(ctx context.Context, m measure, both [2]*contender, first int) error {
	turns := []func() error{
		func() (err error) { p.runc, err = m.once(ctx, both[0]); return err },
		func() (err error) { p.sage, err = m.once(ctx, both[1]); return err },
	}
	if err := turns[first](); err != nil {
		return err
	}
	return turns[1-first]()
}

func version(ctx context.Context, r *contender) (sample, error) {
	return r.spawn(ctx, "--version")
}

func runTrue(ctx context.Context, r *contender) (sample, error) {
	return r.spawn(ctx, "run", "--bundle", r.lab.bundle("true"), r.newID())
}

// createStartDelete adds up the three commands. What lies between start and
// delete, the payload's own time, is waited for and not counted.
func createStartDelete(ctx context.Context, r *contender) (sample, error) {
	id, pidFile := r.newID(), filepath.Join(r.root, "pid")
	total, err := r.spawn(ctx, "create", "--bundle", r.lab.bundle("true"), "--pid-file", pidFile, id)
	if err != nil {
		return total, err
	}
	started, err := r.spawn(ctx, "start", id)
	if err != nil {
		return total, err
	}
	if err := reap(pidFile); err != nil {
		return total, err
	}
	deleted, err := r.spawn(ctx, "delete", id)
	return total.plus(started).plus(deleted), err
}

// reap waits for a detached container's init, which is ours: see newLab.
func reap(pidFile string) error {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		_, err = unix.Wait4(pid, nil, 0, nil)
	}
	return os.NewSyscallError("wait4", err)
}

const sleeper = "sleeper"

// runSleeper leaves one that is there to the next measure, which goes on with it.
func runSleeper(ctx context.Context, r *contender) error {
	id := r.prefix() + sleeper
	if _, err := os.Stat(filepath.Join(r.root, id)); err == nil {
		return nil
	}
	_, err := r.spawn(ctx, "run", "--detach", "--bundle", r.lab.bundle("sleep"), id)
	return err
}

func execTrue(ctx context.Context, r *contender) (sample, error) {
	return r.spawn(ctx, "exec", r.prefix()+sleeper, "/bin/true")
}
