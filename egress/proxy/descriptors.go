package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
)

// controlConn takes over the socket to the bridge.
func controlConn(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "control")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	control, ok := conn.(*net.UnixConn)
	if !ok || control.LocalAddr().Network() != "unixpacket" {
		_ = conn.Close()
		return nil, errors.New("control socket: want AF_UNIX, SOCK_SEQPACKET")
	}
	return control, nil
}

// adopt takes over a client's socket.
func adopt(fd int) (stream, error) {
	file := os.NewFile(uintptr(fd), "client")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	client, ok := conn.(stream)
	if !ok || conn.LocalAddr().Network() != "tcp" && conn.LocalAddr().Network() != "unix" {
		_ = conn.Close()
		return nil, errors.New("a client that is no stream socket")
	}
	return client, nil
}

// receiveMessage reads one message and the one descriptor that may come with
// it, -1 for none.
func receiveMessage(control *net.UnixConn) (message []byte, fd int, err error) {
	message = make([]byte, 2*egress.ArrivalSize)
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := control.ReadMsgUnix(message, oob)
	if err != nil {
		return nil, -1, err
	}
	fd = -1
	if oobn > 0 {
		fd = oneDescriptor(oob[:oobn])
	}
	return message[:n], fd, nil
}

// oneDescriptor: there is room for one, so the kernel gives no more.
func oneDescriptor(oob []byte) int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return -1
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1
	}
	return fds[0]
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
