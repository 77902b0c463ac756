package proxy

import (
	"errors"
	"io"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

// move passes on what comes from src until that ends, then ends dst's side of
// it: half-close is kept. It returns nil, errLimit, or why src or dst failed.
func move(dst, src stream, m *meter) error {
	in, ok1 := src.(*socket)
	out, ok2 := dst.(*socket)
	if !ok1 || !ok2 { // TLS to an upstream proxy
		return moveByCopy(dst, src, m)
	}
	for {
		p, n, err := fill(in)
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			return moveByCopy(dst, src, m)
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return dst.CloseWrite()
		}
		if err := m.take(n); err != nil {
			p.close()
			return err
		}
		if err := p.drain(out, n); err != nil {
			p.close()
			return err
		}
		p.put()
	}
}

// pipe is where bytes are between two sockets: they stay in the kernel. It
// holds some only between fill and drain, so that a few serve all connections,
// and an idle connection has none.
type pipe struct{ r, w int }

// pipes keeps a few that are empty.
var pipes = make(chan *pipe, 8)

func getPipe() (*pipe, error) {
	select {
	case p := <-pipes:
		return p, nil
	default:
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, err
	}
	// As many bytes a call as may be. Where the user has used up what the kernel
	// gives one without privileges (pipe(7)), the usual 64 KiB have to do.
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, maxSplice)
	return &pipe{fds[0], fds[1]}, nil
}

func (p *pipe) put() {
	select {
	case pipes <- p:
	default:
		p.close()
	}
}

func (p *pipe) close() {
	_ = unix.Close(p.r)
	_ = unix.Close(p.w)
}

// maxSplice is what a pipe holds at most, /proc/sys/fs/pipe-max-size as it comes.
const maxSplice = 1 << 20

// fill waits until src has something and puts it into a pipe, taken only then.
func fill(src *socket) (p *pipe, n int, err error) {
	waitErr := src.raw.Read(func(fd uintptr) bool {
		if p, err = getPipe(); err != nil {
			return true
		}
		n, err = splice(int(fd), p.w, maxSplice, told(&src.reads))
		if n > 0 {
			return true
		}
		p.put()
		p = nil
		return !errors.Is(err, unix.EAGAIN)
	})
	if err == nil || waitErr != nil {
		err = waitErr
	}
	return p, n, err
}

// drain moves n bytes out of the pipe.
func (p *pipe) drain(dst *socket, n int) (err error) {
	waitErr := dst.raw.Write(func(fd uintptr) bool {
		for n > 0 {
			var moved int
			if moved, err = splice(p.r, int(fd), n, told(&dst.writes)); err != nil {
				return !errors.Is(err, unix.EAGAIN)
			}
			n -= moved
		}
		return true
	})
	if err == nil || waitErr != nil {
		err = waitErr
	}
	return err
}

func splice(from, to, n int, told bool) (int, error) {
	if !told {
		return sys.SpliceNow(from, to, n)
	}
	for {
		moved, err := unix.Splice(from, nil, to, nil, n, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if !errors.Is(err, unix.EINTR) {
			return int(max(0, moved)), err
		}
	}
}

// bufferSize is what a TLS record can hold.
const bufferSize = 16 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

func moveByCopy(dst, src stream, m *meter) error {
	b := buffers.Get().(*[bufferSize]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer buffers.Put(b)
	for {
		n, err := src.Read(b[:])
		if n > 0 {
			if err := m.pass(dst, b[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return dst.CloseWrite()
		}
		if err != nil {
			return err
		}
	}
}

// pass accounts for b and writes it.
func (m *meter) pass(dst io.Writer, b []byte) error {
	if err := m.take(len(b)); err != nil {
		return err
	}
	_, err := dst.Write(b)
	return err
}
