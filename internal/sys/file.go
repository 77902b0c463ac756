package sys

import (
	"bytes"
	"errors"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"
)

// ReadFile is [os.ReadFile] for files that the kernel makes up (/proc, /sys,
// cgroups): four system calls where that makes ten, as it asks for a size that
// such a file does not have and whether it can be waited for. The start of one
// container reads some fifty of them.
func ReadFile(path string) ([]byte, error) { return readAt(unix.AT_FDCWD, path, 0) }

// Dir is an open directory, as far as reading from it goes. What is read through
// one of /proc/PID is of that very process or fails, whoever has its number now.
type Dir int

// OpenDir opens the directory at path, by O_PATH (open(2)).
func OpenDir(path string) (Dir, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return Dir(fd), nil
}

// Close lets go of the directory.
func (d Dir) Close() error { return unix.Close(int(d)) }

// Open is there for [fs.FS] alone.
func (d Dir) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
}

// ReadFile reads as [ReadFile] does, and follows no link.
func (d Dir) ReadFile(name string) ([]byte, error) { return readAt(int(d), name, unix.O_NOFOLLOW) }

// ReadLink gives the text of a link, without following it.
func (d Dir) ReadLink(name string) (string, error) {
	var buffer [128]byte
	n, err := unix.Readlinkat(int(d), name, buffer[:])
	if err == nil && n == len(buffer) {
		err = unix.ENAMETOOLONG // it may go on; those of /proc/PID/ns do not
	}
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buffer[:n]), nil
}

// Lstat is there for [fs.ReadLinkFS] alone.
func (d Dir) Lstat(name string) (fs.FileInfo, error) {
	return nil, &fs.PathError{Op: "lstat", Path: name, Err: errors.ErrUnsupported}
}

// scratch are buffers larger than all but the longest of these files, which the
// kernel then gives in as few pieces as it can.
var scratch = sync.Pool{New: func() any { return new([16 << 10]byte) }}

func readAt(dir int, name string, flags int) ([]byte, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	buffer := scratch.Get().(*[16 << 10]byte) //nolint:forcetypeassert // there is nothing else in it
	defer scratch.Put(buffer)
	data, err := readAll(fd, buffer[:])
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, nil
}

// readAll uses buffer for as long as it lasts, and returns a copy.
func readAll(fd int, buffer []byte) ([]byte, error) {
	for used := 0; ; {
		n, err := retry(func() (int, error) { return unix.Read(fd, buffer[used:]) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return bytes.Clone(buffer[:used]), nil
		}
		if used += n; used == len(buffer) {
			buffer = append(buffer, make([]byte, len(buffer))...)
		}
	}
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
