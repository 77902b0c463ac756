package xfs

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/quota"
)

// Workspace is a directory of the host's that an administrator has put under a
// project of its own, for containers to write in.
type Workspace struct {
	Project quota.ProjectID `json:"project"`
	Limit   quota.Limit     `json:"limit"` // as it is set, at most what was granted
}

// maxWorkspace is how many inodes of a workspace are looked at.
const maxWorkspace = 1 << 20

// VerifyWorkspace looks at such a directory, open with O_PATH or for reading,
// and changes nothing (S-139 to S-141, S-024). Everything in it must count for one
// project, hand that on, be on the one device and have one name; the project's
// limits must be set and within what is granted. It returns fs.ErrNotExist for
// a directory that is not on this file system.
func (m *Mount) VerifyWorkspace(fd int, granted quota.Limit, symlinks bool) (Workspace, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev != m.dev {
		return Workspace{}, errors.Join(unix.ENOENT, err)
	}
	w, err := m.verify(fd, granted, symlinks)
	return w, errcode.Wrap(errcode.ResourceLimitsUnsupported, "verify a workspace's project", err)
}

func (m *Mount) verify(at int, granted quota.Limit, symlinks bool) (Workspace, error) {
	// Read from, also where the caller has it with O_PATH only.
	fd, err := openBelow(at, ".", openDir)
	if err != nil {
		return Workspace{}, err
	}
	defer unix.Close(fd)
	a, err := sys.GetAttributes(fd)
	if err != nil {
		return Workspace{}, err
	}
	if a.Project == 0 {
		return Workspace{}, errors.New("saw a directory of no project, want one with limits: xfs_quota -x -c 'project -s -p DIRECTORY ID' and 'limit -p bhard=... ihard=... ID'")
	}
	id := quota.ProjectID(a.Project)
	if err := m.below(fd); err != nil {
		return Workspace{}, err
	}
	if err := m.notOurs(id); err != nil {
		return Workspace{}, err
	}
	v := &verifier{project: id, symlinks: symlinks}
	v.walk = walk{left: maxWorkspace, dir: v.dir, file: v.file, special: v.special}
	if err := v.walk.tree(fd); err != nil {
		return Workspace{}, err
	}
	u, err := m.usage(id)
	if err == nil {
		err = u.Within(granted)
	}
	return Workspace{id, u.Hard}, err
}

// below refuses the root of the file system itself: others live there.
func (m *Mount) below(fd int) error {
	var st, top unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstat(m.fd, &top)); err != nil {
		return err
	}
	if st.Ino == top.Ino {
		return fmt.Errorf("saw %s itself, want a directory below it", m.path)
	}
	return nil
}

// notOurs keeps a workspace apart from what sage hands out: a bundle could name
// another container's files otherwise.
func (m *Mount) notOurs(id quota.ProjectID) error {
	if err := m.openRegistry(false); errors.Is(err, unix.ENOENT) {
		return nil
	} else if err != nil {
		return err
	}
	if _, err := m.record(id); !errors.Is(err, unix.ENOENT) {
		return errors.Join(fmt.Errorf("saw project %d, which is a container's, want one that an administrator prepared", id), err)
	}
	return nil
}

// CheckWorkspace looks again, when the directory is mounted in the container:
// at its project and that one's limits. What is in it was looked at when it was
// judged, and nothing of another project gets in since.
func (m *Mount) CheckWorkspace(root int, place string, want Workspace) error {
	fd, err := openInside(root, place)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := counts(fd, want.Project, sys.ProjectInherit); err != nil {
		return errcode.Wrap(errcode.EnforcementFailed, "read back the project at "+place, err)
	}
	return m.ReadBack(want.Project, want.Limit)
}

type verifier struct {
	project  quota.ProjectID
	symlinks bool
	walk     walk
}

func (v *verifier) dir(fd int) error { return counts(fd, v.project, sys.ProjectInherit) }

func (v *verifier) file(fd int) error {
	if err := counts(fd, v.project, 0); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("saw a special file, want files and directories only")
	}
	if st.Nlink > 1 {
		return fmt.Errorf("saw a file of %d names, want one: another may be outside the workspace", st.Nlink)
	}
	return nil
}

// special: a symlink cannot leave the container's mount namespace (C-06).
func (v *verifier) special(_ int, _ string, kind byte) error {
	switch {
	case kind != unix.DT_LNK:
		return errors.New("saw a socket, FIFO or device, want files and directories only")
	case !v.symlinks:
		return errors.New("saw a symlink, want none (quota.scan.symlinks)")
	}
	return nil
}

// Within tells whether path, clean and absolute, lies below the mount point.
func (m *Mount) Within(path string) bool { return strings.HasPrefix(path, m.path+"/") }
