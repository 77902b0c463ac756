package bridge

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// listenUnix makes a listening Unix socket. Its folder is named by a descriptor,
// since a socket's path has 108 bytes at most (unix(7)), which the root that an
// engine passes can exceed.
func listenUnix(path string, kind int, mode uint32) (int, error) {
	fd, err := withFolder(path, kind, func(fd, dir int, name *unix.SockaddrUnix) error {
		if err := unix.Bind(fd, name); err != nil {
			return os.NewSyscallError("bind", err)
		}
		if err := unix.Fchmodat(dir, filepath.Base(path), mode, 0); err != nil {
			return os.NewSyscallError("fchmodat", err)
		}
		return os.NewSyscallError("listen", unix.Listen(fd, backlog))
	})
	if err != nil {
		return -1, fmt.Errorf("%s: %w", path, err)
	}
	return fd, nil
}

// Connect connects to a bridge's control socket, for a proxy: the file is to be
// the proxy's, as ProxyConfig.Control.
func Connect(control string) (*os.File, error) {
	fd, err := withFolder(control, unix.SOCK_SEQPACKET, func(fd, _ int, name *unix.SockaddrUnix) error {
		return os.NewSyscallError("connect", unix.Connect(fd, name))
	})
	if err != nil {
		return nil, errcode.Wrap(errcode.EgressUnavailable, "connect to the container's bridge", err)
	}
	return os.NewFile(uintptr(fd), control), nil
}

func withFolder(path string, kind int, do func(fd, dir int, name *unix.SockaddrUnix) error) (int, error) {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("open", err)
	}
	defer unix.Close(dir)
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	name := &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path))}
	if err := do(fd, dir, name); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
