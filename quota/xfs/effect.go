package xfs

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/quota"
)

// CheckEffect looks at a directory as a container sees it, and with file at one
// made there: each must count for the project. root is the container's root
// directory; place is a path in it.
func (m *Mount) CheckEffect(root int, place string, id quota.ProjectID, file bool) error {
	return errcode.Wrap(errcode.EnforcementFailed, "read back the project at "+place, m.checkEffect(root, place, id, file))
}

func (m *Mount) checkEffect(root int, place string, id quota.ProjectID, file bool) error {
	fd, err := openInside(root, place)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := counts(fd, id, sys.ProjectInherit); err != nil || !file {
		return err
	}
	return m.checkFile(fd, place, id)
}

// checkFile makes a file without a name, which is gone when it is closed.
func (m *Mount) checkFile(dir int, place string, id quota.ProjectID) error {
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		return err
	})
	switch {
	case err == nil:
		return errors.Join(counts(fd, id, 0), unix.Close(fd))
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return m.full(id, err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return nil // overlay before Linux 6.1; that directories hand the project on is XFS's part
	}
	return &os.PathError{Op: "open with O_TMPFILE", Path: place, Err: err}
}

// openInside does not leave the container's root by a symlink of its image.
func openInside(root int, place string) (fd int, err error) {
	name := strings.TrimPrefix(place, "/")
	if name == "" {
		name = "."
	}
	how := unix.OpenHow{Flags: openDir | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	err = retry(func() error {
		fd, err = unix.Openat2(root, name, &how)
		return err
	})
	if err != nil {
		return -1, &os.PathError{Op: "openat2", Path: place, Err: err}
	}
	return fd, nil
}

func counts(fd int, id quota.ProjectID, flags uint32) error {
	a, err := sys.GetAttributes(fd)
	if err != nil {
		return err
	}
	if a.Project != uint32(id) || a.Flags&flags != flags {
		return fmt.Errorf("saw project %d with flags %#x, want %d with %#x", a.Project, a.Flags, id, flags)
	}
	return nil
}

// nearly is what may be left of a limit when nothing can be made any more: a
// new file can need blocks for itself, its directory and the tables of both.
const (
	nearlyBytes  = 1 << 20
	nearlyInodes = 64
)

// full says whether a file could not be made because the project has no room:
// the limit itself, seen from inside. A container that has filled its disk can
// be started again.
func (m *Mount) full(id quota.ProjectID, cause error) error {
	u, err := m.usage(id)
	if err != nil {
		return err
	}
	if u.Bytes+nearlyBytes >= u.Hard.Bytes || u.Inodes+nearlyInodes >= u.Hard.Inodes {
		return nil
	}
	return fmt.Errorf("saw no room for a file, want some: the project has not reached its limit, so the file system is full: %w", cause)
}
