package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

// socket is a connected socket whose calls the scheduler is not told of, see
// [sys.ReadNow], but for one in toldEach; it waits as net.TCPConn does, in the
// runtime's poller. One goroutine at a time reads, and one writes.
type socket struct {
	*os.File
	raw           syscall.RawConn
	reads, writes uint
	packets       bool // of which one can be empty, and ends nothing
}

// toldEach is how many calls in one direction make the scheduler hear of one, a
// power of two. Without any it would not notice a connection that never has to
// wait, and give the others no turn. A request and its answer take fewer.
const toldEach = 16

// told counts one call.
func told(calls *uint) bool {
	*calls++
	return *calls%toldEach == 0
}

var errBlocks = errors.New("a socket that blocks")

// newSocket takes over a connected socket with O_NONBLOCK.
func newSocket(fd int) (*socket, error) {
	file := os.NewFile(uintptr(fd), "socket")
	// Only of a file that is in the poller there can be a deadline.
	if err := file.SetDeadline(time.Time{}); err != nil {
		_ = file.Close()
		return nil, errBlocks
	}
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &socket{File: file, raw: raw}, nil
}

// adopt takes over a client's socket.
func adopt(fd int) (stream, error) {
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		_ = unix.Close(fd)
		return nil, errors.New("a client that is no stream socket")
	}
	sendAtOnce(fd)
	return newSocket(fd)
}

// sendAtOnce turns Nagle's algorithm off, where there is one: what is passed on
// has waited for more already, at its source.
func sendAtOnce(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) }

// connect makes a socket of that kind, SOCK_STREAM or SOCK_DGRAM, and waits
// until it is connected, or ctx ends.
func connect(ctx context.Context, kind int, to netip.AddrPort) (*socket, error) {
	family := unix.AF_INET6
	if to.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if kind == unix.SOCK_STREAM {
		sendAtOnce(fd)
	}
	began := sys.ConnectNow(fd, to)
	if began != nil && !errors.Is(began, unix.EINPROGRESS) {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("connect", began)
	}
	s, err := newSocket(fd)
	if err != nil {
		return nil, err
	}
	s.packets = kind == unix.SOCK_DGRAM
	if began == nil {
		return s, nil
	}
	if err := s.connected(ctx, to); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// connected waits for a connection that was begun.
func (s *socket) connected(ctx context.Context, to netip.AddrPort) error {
	defer s.until(ctx)()
	var err error
	waitErr := s.raw.Write(func(fd uintptr) bool {
		err = sys.ConnectNow(int(fd), to)
		return !errors.Is(err, unix.EALREADY) && !errors.Is(err, unix.EINPROGRESS)
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case waitErr != nil:
		return waitErr
	}
	return os.NewSyscallError("connect", err)
}

// until has every call fail once ctx has ended, up to the call of what it
// returns. A deadline that ctx has stays.
func (s *socket) until(ctx context.Context) (stop func() bool) {
	if deadline, ok := ctx.Deadline(); ok {
		_ = s.SetDeadline(deadline)
	}
	return context.AfterFunc(ctx, func() { _ = s.SetDeadline(time.Unix(1, 0)) })
}

// Read is net.Conn's, and of packets gives one.
func (s *socket) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	waitErr := s.raw.Read(func(fd uintptr) bool {
		if told(&s.reads) {
			n, err = unix.Read(int(fd), b)
		} else {
			n, err = sys.ReadNow(int(fd), b)
		}
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case waitErr != nil:
		return 0, waitErr
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0 && !s.packets:
		return 0, io.EOF
	}
	return n, nil
}

// Write is net.Conn's: it writes all of b, or fails.
func (s *socket) Write(b []byte) (done int, err error) {
	waitErr := s.raw.Write(func(fd uintptr) bool {
		for done < len(b) {
			var n int
			if told(&s.writes) {
				n, err = unix.Write(int(fd), b[done:])
			} else {
				n, err = sys.WriteNow(int(fd), b[done:])
			}
			if err != nil {
				return !errors.Is(err, unix.EAGAIN)
			}
			done += n
		}
		return true
	})
	if waitErr != nil {
		return done, waitErr
	}
	return done, os.NewSyscallError("write", err)
}

// CloseWrite ends this side of the connection.
func (s *socket) CloseWrite() (err error) {
	ctlErr := s.raw.Control(func(fd uintptr) { err = sys.ShutdownNow(int(fd)) })
	return errors.Join(ctlErr, os.NewSyscallError("shutdown", err))
}

// resetOnClose makes the coming close an error for the peer.
func (s *socket) resetOnClose() {
	_ = s.raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	})
}

// LocalAddr and RemoteAddr are there for net.Conn; nobody asks.
func (s *socket) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (s *socket) RemoteAddr() net.Addr { return &net.TCPAddr{} }
