package xfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/quota"
)

// Mount is an XFS file system on which projects are held to their limits. It is
// for one goroutine at a time.
type Mount struct {
	fd    int
	path  string
	dev   uint64
	block uint64 // bytes
	sage  int    // the registry's directory, -1 while it is not open
}

// Open takes the mount point of such a file system, and refuses one that cannot
// hold a limit or would let a container use more of a file than its bytes
// (S-139, G-01, G-04). Reading a project's quota needs CAP_SYS_ADMIN.
func Open(path string) (*Mount, error) {
	m, err := open(path)
	return m, errcode.Wrap(errcode.ResourceLimitsUnsupported, "open linux_quota_mount "+path, err)
}

func open(path string) (*Mount, error) {
	if !filepath.IsAbs(path) {
		return nil, errors.New("saw no absolute path, want the directory where XFS is mounted")
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	m := &Mount{fd: fd, path: filepath.Clean(path), sage: -1}
	if err := m.check(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *Mount) check() error {
	if err := m.checkKind(); err != nil {
		return err
	}
	if err := m.checkPlace(); err != nil {
		return err
	}
	return m.checkQuota()
}

// Close lets go of the descriptors, and with them of the registry's lock.
func (m *Mount) Close() {
	_ = unix.Close(m.fd)
	if m.sage >= 0 {
		_ = unix.Close(m.sage)
	}
}

// Path is where the file system is mounted, as it was given.
func (m *Mount) Path() string { return m.path }

// Limit is that of a number of bytes on this file system.
func (m *Mount) Limit(bytes uint64) quota.Limit { return quota.NewLimit(bytes, m.block) }

// Holds says whether path is on this file system, by whatever mount of it.
func (m *Mount) Holds(path string) bool {
	var st unix.Stat_t
	return filepath.IsAbs(path) && unix.Stat(path, &st) == nil && st.Dev == m.dev
}

func (m *Mount) checkKind() error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(m.fd, &st); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	m.block = uint64(st.Bsize) //nolint:gosec,nolintlint // a size, int64 here and int32 elsewhere
	if st.Type != unix.XFS_SUPER_MAGIC {
		return fmt.Errorf("the file system has magic %#x, want XFS, %#x", st.Type, unix.XFS_SUPER_MAGIC)
	}
	// A set-user-id program or a device node that a container left there must be
	// of no use to anyone on the host.
	for _, f := range []struct {
		flag int64
		name string
		want bool
	}{{unix.ST_NOSUID, "nosuid", true}, {unix.ST_NODEV, "nodev", true}, {unix.ST_RDONLY, "ro", false}} {
		if saw := st.Flags&f.flag != 0; saw != f.want {
			return fmt.Errorf("mount option %s: saw %t, want %t; mount it with rw,prjquota,nosuid,nodev", f.name, saw, f.want)
		}
	}
	return nil
}

// checkPlace wants the mount point itself: a directory below it may be one that
// a project holds already, or a container's.
func (m *Mount) checkPlace() error {
	var st unix.Statx_t
	if err := unix.Statx(m.fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil {
		return os.NewSyscallError("statx", err)
	}
	m.dev = unix.Mkdev(st.Dev_major, st.Dev_minor)
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return errors.New("saw a directory in a file system, want its mount point")
	}
	return nil
}

func (m *Mount) checkQuota() error {
	counts, holds, err := sys.ProjectQuota(m.fd)
	if err == nil && (!counts || !holds) {
		err = fmt.Errorf("project quota: saw accounting %t and enforcement %t, want both; mount it with prjquota", counts, holds)
	}
	switch {
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: want a mount with prjquota, on Linux 5.14 or later with CONFIG_XFS_QUOTA", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: want CAP_SYS_ADMIN, without which a project's limit cannot be read back", err)
	}
	return err
}

// usage asks for one project.
func (m *Mount) usage(id quota.ProjectID) (quota.Usage, error) {
	u, err := sys.GetProjectUsage(m.fd, uint32(id))
	return quota.Usage{
		Hard:  quota.Limit{Bytes: u.BlockHard * quota.BlockSize, Inodes: u.InodeHard},
		Soft:  quota.Limit{Bytes: u.BlockSoft * quota.BlockSize, Inodes: u.InodeSoft},
		Bytes: u.Blocks * quota.BlockSize, Inodes: u.Inodes,
	}, err
}

// limit sets the hard limits of a project and reads them back.
func (m *Mount) limit(id quota.ProjectID, l quota.Limit) error {
	if err := l.Check(); err != nil {
		return errcode.Wrap(errcode.ResourceLimitsUnsupported, "limit project", err)
	}
	if err := sys.SetProjectLimits(m.fd, uint32(id), l.Bytes/quota.BlockSize, l.Inodes); err != nil {
		return err
	}
	return m.ReadBack(id, l)
}

// ReadBack compares the kernel's limits for a project with those it is to have.
func (m *Mount) ReadBack(id quota.ProjectID, want quota.Limit) error {
	got, err := m.usage(id)
	if err == nil {
		err = got.Compare(want)
	}
	return errcode.Wrap(errcode.EnforcementFailed, fmt.Sprintf("read back project %d", id), err)
}

// Usage is what counts for a project now, and what it is held to.
func (m *Mount) Usage(id quota.ProjectID) (quota.Usage, error) { return m.usage(id) }

// retry calls f again where a signal of Go's own, or a rename elsewhere, ended
// the call (openat2(2), EAGAIN).
func retry(f func() error) error {
	for {
		err := f()
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
}

// openBelow opens name in dir without leaving what dir is in: no symlink, no
// way up, no other file system (openat2(2), Linux 5.6).
func openBelow(dir int, name string, flags uint64) (fd int, err error) {
	how := unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS,
	}
	err = retry(func() error {
		fd, err = unix.Openat2(dir, name, &how)
		return err
	})
	if err != nil {
		return -1, &os.PathError{Op: "openat2", Path: name, Err: err}
	}
	return fd, nil
}

const openDir = unix.O_RDONLY | unix.O_DIRECTORY
