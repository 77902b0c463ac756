package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
)

// A process learns what it is to do in two messages on one socket (SOCK_SEQPACKET
// of unix(7)): who it is to be, which it makes of itself at once, and later, when
// the runtime knows, what it serves, with the descriptors for that. In between the
// runtime makes the container, and the start of the process costs it no time.
// Whatever the second message says is read by a process that is confined.

// Identity is the first message.
type Identity struct {
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Root string `json:"root"` // an empty directory that the user cannot write to
}

// Most of both messages: bytes of the first one, and descriptors of the second
// (SCM_MAX_FD of the kernel).
const (
	maxIdentity    = 8 << 10
	maxDescriptors = 253
)

// Orders is the runtime's end of the socket. Closed before [Orders.Give], the
// process ends.
type Orders struct{ socket *os.File }

// Launch is [StartIn] for a program that calls [Obey] and [Receive] with the
// descriptor that is the first of cmd's ExtraFiles, which are otherwise to be
// empty.
func Launch(cmd *exec.Cmd, who Identity, netns *os.File) (*Orders, error) {
	o, err := launch(cmd, who, netns)
	return o, errcode.Wrap(errcode.EnforcementFailed, "start a confined process", err)
}

func launch(cmd *exec.Cmd, who Identity, netns *os.File) (*Orders, error) {
	text, err := json.Marshal(who)
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	o, theirs := &Orders{os.NewFile(uintptr(pair[0]), "orders")}, os.NewFile(uintptr(pair[1]), "orders")
	defer theirs.Close()
	if _, err = o.socket.Write(text); err == nil {
		cmd.ExtraFiles = []*os.File{theirs}
		err = StartIn(cmd, who.UID, who.GID, netns)
	}
	if err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

// Give sends the second message: a document and descriptors, of which it speaks
// by their places in files. The files stay the caller's. It closes o.
func (o *Orders) Give(document any, files []*os.File) error {
	defer o.Close()
	memory, err := sealed(document)
	if err != nil {
		return err
	}
	defer memory.Close()
	fds := []int{int(memory.Fd())}
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	// Room there is: nothing but the short first message can be before it.
	err = unix.Sendmsg(int(o.socket.Fd()), []byte{1}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
	return os.NewSyscallError("sendmsg", err)
}

// Close gives up a process that was given nothing.
func (o *Orders) Close() { _ = o.socket.Close() }

// sealed puts the document into memory that nobody can change any more. It may
// be larger than a message can.
func sealed(document any) (*os.File, error) {
	data, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("sage-egress", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "sage-egress")
	_, err = f.Write(data)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Obey is the process's part of [Launch]: it closes every descriptor but the
// socket and the standard ones, and is [Enter] as who the first message says.
func Obey(socket int, role Role, files uint64) error {
	who, err := identity(socket)
	if err != nil {
		return errcode.Wrap(errcode.EnforcementFailed, "read who the process is to be", err)
	}
	if err := CloseOthers(socket); err != nil {
		return err
	}
	return Enter(Options{Role: role, UID: who.UID, GID: who.GID, Root: who.Root, Files: files})
}

func identity(socket int) (who Identity, err error) {
	var text [maxIdentity]byte
	n, _, flags, _, err := unix.Recvmsg(socket, text[:], nil, unix.MSG_CMSG_CLOEXEC)
	switch {
	case err != nil:
		return who, os.NewSyscallError("recvmsg", err)
	case n == 0:
		return who, errors.New("saw nobody who says it")
	case flags&unix.MSG_TRUNC != 0:
		return who, fmt.Errorf("saw more than %d bytes", len(text))
	}
	return who, json.Unmarshal(text[:n], &who)
}

// Receive waits for the second message, which a confined process may read, and
// closes the socket. The descriptors are close-on-exec. A document that is longer
// than most bytes is cut, and so is none.
func Receive(socket, most int) (document []byte, files []int, err error) {
	defer unix.Close(socket)
	files, err = sys.ReceiveFDs(socket, maxDescriptors)
	if err != nil {
		return nil, nil, err
	}
	if len(files) == 0 {
		return nil, nil, errors.New("configuration: saw none, and the runtime is gone")
	}
	defer unix.Close(files[0])
	document, err = readAll(files[0], most)
	return document, files[1:], err
}

// readAll reads a file from its beginning, wherever the writer left its position.
func readAll(fd, most int) ([]byte, error) {
	document := make([]byte, 0, 4<<10)
	for len(document) < most {
		room := make([]byte, 4<<10)
		n, err := unix.Pread(fd, room, int64(len(document)))
		if err != nil {
			return nil, os.NewSyscallError("pread(configuration)", err)
		}
		if n == 0 {
			break
		}
		document = append(document, room[:n]...)
	}
	return document[:min(len(document), most)], nil
}

// Placed gives the descriptors that a document speaks of by their places, each
// number in place of its place; -1 is none and stays.
func Placed(files []int, numbers ...*int) error {
	for _, n := range numbers {
		if *n == -1 {
			continue
		}
		if *n < 0 || *n >= len(files) {
			return fmt.Errorf("configuration: saw descriptor %d of %d", *n, len(files))
		}
		*n = files[*n]
	}
	return nil
}
