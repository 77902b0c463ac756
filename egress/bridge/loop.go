package bridge

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/egress/confine"
)

const (
	// batch is how many connections one listener gives before others have a turn.
	batch = 16
	// pause is how long nothing is accepted after the kernel had no descriptor or
	// memory for a connection. A proxy that is full is asked again then at the
	// latest, since of some reasons no event tells.
	pause = 20 * time.Millisecond
	// patience is how long a proxy may take nothing before its clients are told.
	patience = 5 * time.Second
)

// settled is how long after its start the process gives back what only that
// needed: until then the container starts, and its program has more use for the
// processor.
const settled = time.Second

// bridge is the state of the process. One goroutine has it.
type bridge struct {
	config    egress.BridgeConfig
	kinds     map[int]egress.Kind // of listeners, by descriptor
	epoll     int
	proxy     int // the connection to it, or none
	held      *connection
	fullSince time.Time // zero: the proxy takes what it gets
	resume    time.Time // when listening goes on; zero: it does not rest
	parting   []parting // clients that were told there is no proxy
	settle    time.Time // when memory is given back; zero: it was
	message   []byte    // room for an arrival
}

const none = -1

// connection is one that was accepted and is nobody's yet.
type connection struct {
	fd      int
	arrival egress.Arrival
}

func newBridge(c egress.BridgeConfig) (*bridge, error) {
	b := &bridge{config: c, kinds: map[int]egress.Kind{}, proxy: none, message: make([]byte, 0, egress.ArrivalSize), settle: time.Now().Add(settled)}
	var err error
	if b.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	for _, l := range c.Listeners {
		if !l.Kind.Valid() {
			return nil, fmt.Errorf("configuration: listener %d: saw %v", l.FD, l.Kind)
		}
		b.kinds[l.FD] = l.Kind
		if err := b.watchQuietly(l.FD, unix.EPOLLIN); err != nil {
			return nil, err
		}
	}
	if err := b.watchQuietly(c.Control, unix.EPOLLIN); err != nil {
		return nil, err
	}
	return b, b.watch(c.Events, unix.EPOLLPRI)
}

// watchQuietly watches a socket with which no call is to wait: the next client
// may be gone before it is accepted.
func (b *bridge) watchQuietly(fd int, events uint32) error {
	if err := unix.SetNonblock(fd, true); err != nil {
		return os.NewSyscallError("fcntl(O_NONBLOCK)", err)
	}
	return b.watch(fd, events)
}

func (b *bridge) watch(fd int, events uint32) error {
	event := unix.EpollEvent{Events: events, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(b.epoll, unix.EPOLL_CTL_ADD, fd, &event))
}

// serve runs until the container is empty.
func (b *bridge) serve() error {
	events := make([]unix.EpollEvent, 64)
	for {
		empty, err := isEmpty(b.config.Events)
		if err != nil || empty {
			return err
		}
		n, err := unix.EpollWait(b.epoll, events, b.timeout(time.Now()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("epoll_wait", err)
		}
		for _, event := range events[:max(n, 0)] {
			b.handle(int(event.Fd), event.Events)
		}
		if err := b.tick(time.Now()); err != nil {
			return err
		}
	}
}

// handle does what one descriptor is ready for. A descriptor that an earlier
// event of the same batch has closed is in none of the tables any more.
func (b *bridge) handle(fd int, events uint32) {
	kind, listens := b.kinds[fd]
	switch {
	case fd == b.config.Control:
		b.takeProxy()
	case fd == b.proxy:
		b.proxyReady(events)
	case listens:
		b.accept(fd, kind)
	default:
		b.drain(fd)
	}
}

// timeout is in milliseconds, for epoll_wait(2).
func (b *bridge) timeout(now time.Time) int {
	wait := time.Duration(-1)
	for _, at := range []time.Time{b.resume, b.nextParting(), b.settle} {
		if !at.IsZero() && (wait < 0 || at.Sub(now) < wait) {
			wait = max(at.Sub(now), 0)
		}
	}
	if wait < 0 {
		return -1
	}
	return int((wait + time.Millisecond - 1) / time.Millisecond)
}

// tick does what it is time for.
func (b *bridge) tick(now time.Time) error {
	b.part(now)
	if !b.resume.IsZero() && !now.Before(b.resume) {
		b.goOn()
	}
	if b.settle.IsZero() || now.Before(b.settle) {
		return nil
	}
	b.settle = time.Time{}
	debug.SetGCPercent(collectAt)
	return confine.Settle()
}

// goOn tries again what was held, and listens again if that is settled.
func (b *bridge) goOn() {
	if held := b.held; held != nil {
		b.held = nil
		b.handOver(held)
	}
	if b.held == nil {
		b.awaitRoom(proxyEvents)
		b.rest(time.Time{})
	}
}

// rest stops accepting until a time, or with the zero time begins it again. The
// backlogs of the listeners hold who comes meanwhile.
func (b *bridge) rest(until time.Time) {
	if until.IsZero() != b.resume.IsZero() {
		events := uint32(unix.EPOLLIN)
		if !until.IsZero() {
			events = 0
		}
		for fd := range b.kinds {
			event := unix.EpollEvent{Events: events, Fd: int32(fd)}
			_ = unix.EpollCtl(b.epoll, unix.EPOLL_CTL_MOD, fd, &event)
		}
	}
	b.resume = until
}

// isEmpty reads cgroup.events. A cgroup that was removed was empty.
func isEmpty(fd int) (bool, error) {
	var text [256]byte
	n, err := unix.Pread(fd, text[:], 0)
	if errors.Is(err, unix.ENODEV) {
		return true, nil
	}
	if err != nil {
		return false, os.NewSyscallError("pread(cgroup.events)", err)
	}
	return unpopulated(string(text[:n])), nil
}
