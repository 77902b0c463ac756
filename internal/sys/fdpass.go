package sys

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// SendFD sends data as one message over a connected AF_UNIX socket, with one
// descriptor by SCM_RIGHTS of unix(7) unless fd is negative. It does not wait:
// EAGAIN says that the other side's queue is full, ETOOMANYREFS that the user
// has more descriptors on their way than RLIMIT_NOFILE, EPIPE or ECONNRESET
// that nobody is there. The errno is what is returned, unwrapped, since that is
// what callers decide by, for every connection.
func SendFD(socket int, data []byte, fd int) error {
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	return unix.Sendmsg(socket, data, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// ReceiveFD receives one message into data and the descriptor that came with
// it, or -1, close-on-exec. n of 0 is the end of the connection. A message that
// was longer than data, or had more than one descriptor, is an error, and
// nothing of it stays open.
func ReceiveFD(socket int, data []byte) (n, fd int, err error) {
	var control [64]byte // room for more than one, so that the kernel need not drop them unseen
	n, size, flags, _, err := unix.Recvmsg(socket, data, control[:], unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, -1, os.NewSyscallError("recvmsg", err)
	}
	fds, err := receivedFDs(control[:size])
	switch {
	case err != nil:
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = fmt.Errorf("recvmsg: message or its descriptors did not fit into %d and %d bytes", len(data), len(control))
	case len(fds) > 1:
		err = fmt.Errorf("recvmsg: saw %d descriptors, want one at most", len(fds))
	case len(fds) == 1:
		return n, fds[0], nil
	default:
		return n, -1, nil
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return 0, -1, err
}

// ReceiveFDs waits for one message of one byte and gives the descriptors that
// came with it, at most so many, close-on-exec; none at the end of the
// connection. On an error nothing of it stays open.
func ReceiveFDs(socket, most int) ([]int, error) {
	data, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4*most))
	n, size, flags, _, err := unix.Recvmsg(socket, data, control, unix.MSG_CMSG_CLOEXEC)
	for errors.Is(err, unix.EINTR) {
		n, size, flags, _, err = unix.Recvmsg(socket, data, control, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	fds, err := receivedFDs(control[:size])
	if err == nil && (n > 0) != (len(fds) > 0) {
		err = fmt.Errorf("recvmsg: saw %d bytes and %d descriptors", n, len(fds))
	}
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = fmt.Errorf("recvmsg: saw more than a byte, or more than %d descriptors", most)
	}
	if err == nil {
		return fds, nil
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return nil, err
}

func receivedFDs(control []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	var fds []int
	for _, m := range messages {
		if more, err := unix.ParseUnixRights(&m); err == nil {
			fds = append(fds, more...)
		}
	}
	return fds, nil
}
