package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/sys"
)

// control is the connection to the bridge.
type control struct {
	*os.File
	raw  syscall.RawConn
	room [2 * egress.ArrivalSize]byte
}

// newControl takes over the socket to the bridge.
func newControl(fd int) (*control, error) {
	domain, err1 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	err := errors.Join(err1, err2, unix.SetNonblock(fd, true))
	if err == nil && (domain != unix.AF_UNIX || kind != unix.SOCK_SEQPACKET) {
		err = errors.New("want AF_UNIX, SOCK_SEQPACKET")
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("control socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "control")
	raw, err := file.SyscallConn()
	return &control{File: file, raw: raw}, err
}

// receive waits for one message, which is valid up to the next call, and the one
// descriptor that may come with it, -1 for none. The error is io.EOF at the end,
// or a *os.SyscallError; any other is for this message alone.
func (c *control) receive() (message []byte, fd int, err error) {
	var n int
	waitErr := c.raw.Read(func(socket uintptr) bool {
		n, fd, err = sys.ReceiveFD(int(socket), c.room[:])
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case waitErr != nil:
		return nil, -1, os.NewSyscallError("recvmsg", waitErr)
	case err == nil && n == 0:
		return nil, fd, io.EOF
	}
	return c.room[:n], fd, err
}

func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

func sayReady(fd int) error {
	if fd < 0 {
		return nil
	}
	file := os.NewFile(uintptr(fd), "ready")
	defer file.Close()
	_, err := file.Write([]byte{1})
	return err
}

// endWith calls end when cgroup.events says that the cgroup is empty, or can no
// longer be read. The kernel wakes up whoever polls the file at each change
// (cgroups(7)); a file that does not block is polled by the Go runtime, so that
// this costs no thread.
func endWith(ctx context.Context, events int, end func()) {
	defer end()
	if err := unix.SetNonblock(events, true); err != nil {
		return
	}
	file := os.NewFile(uintptr(events), "cgroup.events")
	defer file.Close()
	defer context.AfterFunc(ctx, func() { _ = file.Close() })()
	raw, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		var text [256]byte
		n, err := unix.Pread(int(fd), text[:], 0)
		return err != nil || !bytes.Contains(text[:n], []byte("populated 1"))
	})
}
