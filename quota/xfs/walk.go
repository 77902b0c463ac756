package xfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// walk visits every inode of a tree. A directory is visited before it is read:
// from then on what is made in it inherits its project, and nothing that is
// of another project can be renamed or linked into it (EXDEV), so nothing gets
// past a walk that others write around.
type walk struct {
	left uint64 // how many entries may still come
	// dir and file get the inode open for reading, the others are for what
	// cannot be opened, or should not be.
	dir  func(fd int) error
	file func(fd int) error
	// special is called for symlinks, sockets, FIFOs and devices.
	special func(dir int, name string, kind byte) error

	buf     []byte
	opened  []int // files, to be closed many at a time
	visited struct{ dirs, files, specials uint64 }
}

// errTooMany ends a walk that has seen all that it may.
var errTooMany = errors.New("saw more inodes than the disk limit allows, want a smaller tree")

// Of the buffer for getdents64(2), the depth of a tree, for each level of which
// a descriptor is held, and the files that are open at once.
const (
	direntsSize = 128 << 10
	maxDepth    = 512
	maxOpened   = 1000
)

// tree walks from the open directory fd, which stays open.
func (w *walk) tree(fd int) error {
	if err := w.dir(fd); err != nil {
		return err
	}
	return w.below(fd)
}

// below does, but for a directory that was visited already.
func (w *walk) below(fd int) error {
	if w.buf == nil {
		w.buf = make([]byte, direntsSize)
	}
	err := w.level(fd, 0)
	closeRuns(w.opened)
	w.opened = nil
	return err
}

func (w *walk) level(fd, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("saw directories nested deeper than %d, want less", maxDepth)
	}
	w.visited.dirs++
	// The directories below come last, when the buffer is no more in use.
	dirs, err := w.entries(fd)
	if err != nil {
		return err
	}
	for _, name := range dirs {
		if err := w.descend(fd, name, depth+1); err != nil {
			return fmt.Errorf("%.64q: %w", name, err)
		}
	}
	return nil
}

func (w *walk) descend(dir int, name string, depth int) error {
	fd, err := w.open(dir, name, openDir)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil // removed or replaced; what replaced it inherits
	}
	if err != nil {
		return foreign(err)
	}
	defer unix.Close(fd)
	if err := w.dir(fd); err != nil {
		return err
	}
	return w.level(fd, depth)
}

// open makes room among the descriptors if there is none.
func (w *walk) open(dir int, name string, flags uint64) (int, error) {
	fd, err := openBelow(dir, name, flags)
	if errors.Is(err, unix.EMFILE) && len(w.opened) > 0 {
		w.closeFiles()
		fd, err = openBelow(dir, name, flags)
	}
	return fd, err
}

// foreign names what RESOLVE_NO_XDEV found.
func foreign(err error) error {
	if errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("saw another file system mounted in the tree, want none: %w", err)
	}
	return err
}

func (w *walk) entries(fd int) (dirs []string, err error) {
	err = w.list(fd, func(e dirent) (err error) {
		if dirs, err = w.entry(fd, e, dirs); err != nil {
			return fmt.Errorf("%.64q: %w", e.name, err)
		}
		return nil
	})
	return dirs, err
}

// list calls f for what is in a directory, as it is read.
func (w *walk) list(fd int, f func(dirent) error) error {
	for {
		n := 0
		err := retry(func() (err error) {
			n, err = unix.Getdents(fd, w.buf)
			return err
		})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return os.NewSyscallError("getdents64", err)
		}
		if n <= 0 {
			return nil // the end, or ENOENT for a directory that is removed by now
		}
		for rest := w.buf[:n]; len(rest) > 0; {
			var e dirent
			if e, rest = nextDirent(rest); e.name == "." || e.name == ".." {
				continue
			}
			if err := f(e); err != nil {
				return err
			}
		}
	}
}

func (w *walk) entry(dir int, e dirent, dirs []string) ([]string, error) {
	if w.left == 0 {
		return nil, errTooMany
	}
	w.left--
	if e.kind == unix.DT_UNKNOWN { // XFS made without ftype
		e.kind = kindAt(dir, e.name)
	}
	switch e.kind {
	case unix.DT_DIR:
		return append(dirs, e.name), nil
	case unix.DT_REG:
		return dirs, w.regular(dir, e.name)
	}
	w.visited.specials++
	return dirs, w.special(dir, e.name, e.kind)
}

// regular opens without waiting for whoever has a lease, and without anything
// happening should a FIFO be there by now; device nodes are closed by nodev.
func (w *walk) regular(dir int, name string) error {
	fd, err := w.open(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return foreign(err)
	}
	w.visited.files++
	w.opened = append(w.opened, fd)
	if err := w.file(fd); err != nil {
		return err
	}
	if len(w.opened) >= maxOpened {
		w.closeFiles()
	}
	return nil
}

func (w *walk) closeFiles() {
	closeRuns(w.opened)
	w.opened = w.opened[:0]
}

// closeRuns closes runs of numbers by one call each (close_range(2), Linux
// 5.9): nearly a call less for every file of a tree.
func closeRuns(fds []int) {
	slices.Sort(fds)
	for len(fds) > 0 {
		n := 1
		for n < len(fds) && fds[n] == fds[0]+n {
			n++
		}
		_ = unix.CloseRange(uint(fds[0]), uint(fds[n-1]), 0)
		fds = fds[n:]
	}
}

type dirent struct {
	name string
	kind byte // DT_*
}

// nextDirent reads one struct linux_dirent64, getdents(2).
func nextDirent(buf []byte) (dirent, []byte) {
	const nameAt = 19 // behind ino, off, reclen and type
	size := int(binary.NativeEndian.Uint16(buf[16:]))
	name, _, _ := bytes.Cut(buf[nameAt:size], []byte{0})
	return dirent{string(name), buf[18]}, buf[size:]
}

// kindAt gives DT_UNKNOWN for what is gone.
func kindAt(dir int, name string) byte {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return unix.DT_UNKNOWN
	}
	return byte(st.Mode >> 12) // as IFTODT of dirent.h has it
}
