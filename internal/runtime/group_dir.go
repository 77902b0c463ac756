package runtime

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// groupDir is the directory of a cgroup, by descriptor, as far as
// [readback.Read] needs it: three system calls a file, where [os.ReadFile]
// makes eight, and every create and exec reads a dozen.
type groupDir int

func openGroup(path string) (groupDir, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return groupDir(fd), nil
}

func (d groupDir) close() { _ = unix.Close(int(d)) }

// Open is there for [fs.FS] alone.
func (d groupDir) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
}

// ReadFile reads once: the kernel gives a file of limits whole or not at all, and
// what is longer than a few numbers is cut, and no limit.
func (d groupDir) ReadFile(name string) ([]byte, error) {
	fd, err := unix.Openat(int(d), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	buffer := make([]byte, 256)
	n, err := unix.Read(fd, buffer)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return buffer[:n], nil
}

// Stat says whether there is such a file, and no more.
func (d groupDir) Stat(name string) (fs.FileInfo, error) {
	if err := unix.Faccessat(int(d), name, unix.F_OK, 0); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return nil, nil //nolint:nilnil // nobody looks at it
}
