package xfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/quota"
)

// makeTree makes the folder of a container's own directories and gives it open.
// Under the lock.
func (m *Mount) makeTree(token string) (int, error) {
	at := treesDir + "/" + token
	if err := unix.Mkdirat(m.sage, at, 0o700); err != nil {
		return -1, &os.PathError{Op: "mkdirat", Path: at, Err: err}
	}
	return openBelow(m.sage, at, openDir)
}

// own puts a directory into the project, before there is anything in it. It is
// new, so there is nothing about it to keep. It also succeeds where the project
// is full: with CAP_FOWNER, XFS charges what changes its project in any case.
func own(fd int, id quota.ProjectID) error {
	return sys.SetAttributes(fd, sys.Attributes{Project: uint32(id), Flags: sys.ProjectInherit})
}

func makeDirs(tree int, dirs []Dir) error {
	for _, d := range dirs {
		if err := d.make(tree); err != nil {
			return &os.PathError{Op: "make", Path: d.Name, Err: err}
		}
	}
	return nil
}

// makeFull is for a project that may be full already, of a container that is
// started again: the directories are made outside of it and then put into it.
func makeFull(tree int, dirs []Dir, id quota.ProjectID) error {
	if err := makeDirs(tree, dirs); err != nil {
		return err
	}
	for _, d := range dirs {
		fd, err := openBelow(tree, d.Name, openDir)
		if err != nil {
			return err
		}
		if err := errors.Join(own(fd, id), unix.Close(fd)); err != nil {
			return err
		}
	}
	return own(tree, id)
}

// make gives the mode apart from mkdirat(2), which takes the umask off.
func (d Dir) make(tree int) error {
	if err := unix.Mkdirat(tree, d.Name, 0o700); err != nil {
		return err
	}
	if d.UID != 0 || d.GID != 0 {
		if err := unix.Fchownat(tree, d.Name, d.UID, d.GID, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	return unix.Fchmodat(tree, d.Name, d.Mode, 0)
}

// removeTree removes a container's own directories and all that it has written
// there. There may be none.
func (m *Mount) removeTree(token string) error {
	at := treesDir + "/" + token
	if token == "" {
		return nil
	}
	top, err := openBelow(m.sage, at, openDir)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(top)
	if err := (&remover{top: top, buf: make([]byte, direntsSize)}).all(); err != nil {
		return err
	}
	return gone("unlinkat", at, unix.Unlinkat(m.sage, at, unix.AT_REMOVEDIR))
}

// gone takes what another sweep has removed meanwhile for removed.
func gone(op, path string, err error) error {
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &os.PathError{Op: op, Path: path, Err: err}
}

// remover empties a directory. A program can nest directories far deeper than
// anyone has descriptors; what lies deep is moved to the top and comes again.
type remover struct {
	top int
	buf []byte
}

// flattenDepth is where to move instead of to go on.
const flattenDepth = 64

// all goes over the top again as long as there is something: a directory that
// was moved there may have come behind what was read of it.
func (r *remover) all() error {
	for {
		n, err := r.level(r.top, 0)
		if err != nil || n == 0 {
			return err
		}
		if _, err := unix.Seek(r.top, 0, 0); err != nil {
			return os.NewSyscallError("lseek", err)
		}
	}
}

// level removes what is in dir, and says how many entries it saw.
func (r *remover) level(dir, depth int) (int, error) {
	var entries []dirent
	w := walk{buf: r.buf}
	if err := w.list(dir, func(e dirent) error {
		entries = append(entries, e)
		return nil
	}); err != nil {
		return 0, err
	}
	for _, e := range entries {
		if err := r.remove(dir, e, depth); err != nil {
			return 0, err
		}
	}
	return len(entries), nil
}

func (r *remover) remove(dir int, e dirent, depth int) error {
	if e.kind != unix.DT_DIR {
		err := unix.Unlinkat(dir, e.name, 0)
		if !errors.Is(err, unix.EISDIR) {
			return gone("unlinkat", e.name, err)
		}
	}
	if depth >= flattenDepth {
		return gone("renameat", e.name, unix.Renameat(dir, e.name, r.top, NewToken()))
	}
	fd, err := openBelow(dir, e.name, openDir)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := r.level(fd, depth+1); err != nil {
		return err
	}
	return gone("unlinkat", e.name, unix.Unlinkat(dir, e.name, unix.AT_REMOVEDIR))
}
