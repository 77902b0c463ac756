package xfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/quota"
)

// tagger makes the inodes of trees count for one project.
type tagger struct {
	project uint32
	walk    walk
	// apart is what was there before and cannot be made to count: before Linux
	// 6.17 there is no call for symlinks, sockets, whiteouts and device nodes.
	// None of them can grow, so they are taken off the limit instead.
	apart struct{ bytes, inodes uint64 }
}

// newTagger refuses trees of more inodes than the limit allows: they would be
// refused for it anyway once all were counted.
func newTagger(id quota.ProjectID, l quota.Limit) *tagger {
	t := &tagger{project: uint32(id)}
	t.walk = walk{left: l.Inodes, dir: t.dir, file: t.file, special: t.special}
	return t
}

func (t *tagger) dir(fd int) error  { return tag(fd, t.project, sys.ProjectInherit) }
func (t *tagger) file(fd int) error { return tag(fd, t.project, 0) }

// tag refuses what counts for another project: whose limit that is, and who
// would be charged for it from now on, is not for us to say.
func tag(fd int, project, flags uint32) error {
	a, err := sys.GetAttributes(fd)
	if err != nil {
		return err
	}
	change, err := retag(&a, project, flags)
	if err != nil || !change {
		return err
	}
	return sys.SetAttributes(fd, a)
}

func retag(a *sys.Attributes, project, flags uint32) (change bool, err error) {
	if a.Project == project && a.Flags&flags == flags {
		return false, nil
	}
	if a.Project != 0 && a.Project != project {
		return false, errForeign(a.Project)
	}
	a.Project, a.Flags = project, a.Flags|flags
	return true, nil
}

func errForeign(project uint32) error {
	return errcode.Wrap(errcode.PermissionDenied, "tag for a project",
		fmt.Errorf("saw an inode of project %d, which sage did not give to this container, want one of none", project))
}

// special is for what has no descriptor to be had that ioctl(2) takes. A FIFO
// has, but opening it would be seen by who waits at its other end.
func (t *tagger) special(dir int, name string, _ byte) error {
	a, err := sys.GetAttributesAt(dir, name)
	if err == nil {
		var change bool
		if change, err = retag(&a, t.project, 0); err == nil && change {
			err = sys.SetAttributesAt(dir, name, a)
		}
	}
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case unsupported(err):
		return t.setApart(dir, name)
	}
	return err
}

// unsupported tells a kernel without the call, or an XFS that does not take
// part in it for such inodes, from a refusal.
func unsupported(err error) bool {
	for _, no := range []error{unix.ENOSYS, unix.EOPNOTSUPP, unix.ENOTTY} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

func (t *tagger) setApart(dir int, name string) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "fstatat", Path: name, Err: err}
	}
	t.apart.inodes++
	t.apart.bytes += uint64(st.Blocks) * quota.BlockSize
	return nil
}
