package sampler

import (
	"fmt"
	"io"
	"time"

	"github.com/sage-sandbox/sage/internal/state"
)

// interval is that of the samples (S-150).
const interval = 100 * time.Millisecond

// Watch is a container that is being watched.
type Watch struct {
	plan *Plan
	dir  string // of the container's state, for the mark
	init *handle
	disk schedule
	cpu  throttle

	exited, stop, done chan struct{}
}

// Begin watches the container that p is of, whose state directory is dir, until
// its init ends or [Watch.Stop] is called. Its time counts from now.
func Begin(p *Plan, dir string) (*Watch, error) { return begin(p, dir, nil) }

// begin also kills when partner reads to its end: see [Pair].
func begin(p *Plan, dir string, partner io.Reader) (*Watch, error) {
	init, err := p.Init.open()
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w", p.Init.Pid, err)
	}
	w := &Watch{
		plan: p, dir: dir, init: init,
		exited: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go func() { init.wait(); close(w.exited) }()
	go w.run(time.Now(), lost(partner))
	return w, nil
}

// lost is closed when the other side of r is no more; never for nil.
func lost(r io.Reader) <-chan struct{} {
	closed := make(chan struct{})
	if r != nil {
		go func() {
			_, _ = io.Copy(io.Discard, r)
			close(closed)
		}()
	}
	return closed
}

// Stop ends the watch of a container that has ended, or will without its help.
func (w *Watch) Stop() {
	close(w.stop)
	<-w.done
}

// Wait returns when the container's init has ended.
func (w *Watch) Wait() {
	<-w.exited
	<-w.done
}

func (w *Watch) run(since time.Time, partner <-chan struct{}) {
	defer close(w.done)
	defer w.init.close()
	defer w.thaw()
	w.guard(func() verdict { return w.await(since, partner) })
}

// guard kills the container if watch says so, or fails: a watch that fails is one
// that is lost, and the container must not go on without (S-152).
func (w *Watch) guard(watch func() verdict) {
	defer func() {
		if r := recover(); r != nil {
			w.kill(verdict{state.SamplerLost, fmt.Sprintf("panic: %v", r)})
		}
	}()
	if v := watch(); v.reason != "" {
		w.kill(v)
	}
}

// verdict is why the container is to be killed.
type verdict struct {
	reason state.Reason
	detail string
}

func (w *Watch) await(since time.Time, partner <-chan struct{}) verdict {
	var deadline, tick <-chan time.Time
	if w.plan.Seconds > 0 {
		timer := time.NewTimer(time.Until(since.Add(w.plan.timeout())))
		defer timer.Stop()
		deadline = timer.C
	}
	if w.plan.sampled() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-w.stop:
			return verdict{}
		case <-w.exited:
			return verdict{}
		case <-deadline:
			return verdict{state.Timeout, fmt.Sprintf("ran for %d s", w.plan.Seconds)}
		case <-partner:
			return w.unlessEnded(verdict{state.SamplerLost, "one of the two processes that watched it died"})
		case <-tick:
			if v := w.sample(time.Now()); v.reason != "" {
				return w.unlessEnded(v)
			}
		}
	}
}

// unlessEnded is for findings that the container's own end leads to as well: what
// is looked at goes away then.
func (w *Watch) unlessEnded(v verdict) verdict {
	if w.init.hasEnded() {
		return verdict{}
	}
	return v
}

// kill kills until the container has ended: a process that waits for a device
// takes its time.
func (w *Watch) kill(v verdict) {
	// Without a mark it would be taken for an end by signal; that is no reason to
	// let it live.
	_ = state.Mark(w.dir, v.reason, v.detail)
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		w.plan.killOnce(w.init)
		timer := time.NewTimer(pause)
		select {
		case <-w.exited:
			timer.Stop()
			_ = Clear(w.plan.Cgroups)
			return
		case <-w.stop:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
