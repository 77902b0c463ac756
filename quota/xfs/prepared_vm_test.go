//go:build vm

package xfs_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/quota"
	"github.com/sage-sandbox/sage/quota/xfs"
)

const prepared = 4242

// prepare makes a workspace as an administrator would, by xfs_quota(8).
func prepare(t *testing.T, p place, bytes, inodes string) string {
	t.Helper()
	dir := p.dir + "/workspace"
	check(t, os.MkdirAll(dir+"/sub", 0o755))
	write(t, dir+"/sub/f", "x")
	fd := fdOf(t)
	t.Cleanup(func() { check(t, sys.SetProjectLimits(fd, prepared, 0, 0)) })
	for _, command := range []string{"project -s -p " + dir + " 4242", "limit -p bhard=" + bytes + " ihard=" + inodes + " 4242"} {
		if out, err := exec.Command("xfs_quota", "-x", "-c", command, quotaMount).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

func verify(t *testing.T, m *xfs.Mount, dir string, symlinks bool) (xfs.Workspace, error) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	return m.VerifyWorkspace(fd, quota.NewLimit(8*mib, 4096), symlinks)
}

// Proves: S-139, S-140, S-141, S-024, G-15, C-06: an administrator's own project
// is taken where it holds what was granted, and refused where anything is amiss.
func TestWorkspace(t *testing.T) {
	tests := []struct {
		name          string
		bytes, inodes string
		symlinks      bool
		spoil         func(t *testing.T, dir string)
		ok            bool
	}{
		{name: "good", bytes: "8m", inodes: "2048", ok: true},
		{name: "less", bytes: "4m", inodes: "100", ok: true},
		{name: "more bytes", bytes: "9m", inodes: "2048"},
		{name: "more inodes", bytes: "8m", inodes: "2049"},
		{name: "no limit", bytes: "0", inodes: "2048"},
		{name: "no inode limit", bytes: "8m", inodes: "0"},
		{name: "a symlink", bytes: "8m", inodes: "2048", symlinks: true, ok: true, spoil: func(t *testing.T, dir string) {
			check(t, os.Symlink("/etc", dir+"/sub/l"))
		}},
		{name: "a symlink, refused", bytes: "8m", inodes: "2048", spoil: func(t *testing.T, dir string) {
			check(t, os.Symlink("/etc", dir+"/sub/l"))
		}},
		{name: "a FIFO", bytes: "8m", inodes: "2048", spoil: func(t *testing.T, dir string) {
			check(t, unix.Mkfifo(dir+"/sub/p", 0o600))
		}},
		{name: "a socket", bytes: "8m", inodes: "2048", spoil: func(t *testing.T, dir string) {
			l, err := net.Listen("unix", dir+"/s")
			check(t, err)
			t.Cleanup(func() { _ = l.Close() })
		}},
		{name: "a device", bytes: "8m", inodes: "2048", spoil: func(t *testing.T, dir string) {
			check(t, unix.Mknod(dir+"/sub/d", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
		}},
		{name: "a file of two names", bytes: "8m", inodes: "2048", spoil: func(t *testing.T, dir string) {
			check(t, os.Link(dir+"/sub/f", dir+"/g"))
		}},
		{name: "a file of no project", bytes: "8m", inodes: "2048", spoil: func(t *testing.T, dir string) {
			setProject(t, dir+"/sub/f", 0, false)
		}},
		{name: "a file of another", bytes: "8m", inodes: "2048", spoil: func(t *testing.T, dir string) {
			setProject(t, dir+"/sub/f", prepared+1, false)
		}},
		{name: "a directory that hands nothing on", bytes: "8m", inodes: "2048", spoil: func(t *testing.T, dir string) {
			setProject(t, dir+"/sub", prepared, false)
		}},
		{name: "no project", bytes: "8m", inodes: "2048", spoil: func(t *testing.T, dir string) {
			setProject(t, dir, 0, false)
		}},
		{name: "a mount", bytes: "8m", inodes: "2048", spoil: func(t *testing.T, dir string) {
			check(t, unix.Mount("tmpfs", dir+"/sub", "tmpfs", 0, ""))
			t.Cleanup(func() { check(t, unix.Unmount(dir+"/sub", 0)) })
		}},
		{name: "a mount of the same file system", bytes: "8m", inodes: "2048", spoil: func(t *testing.T, dir string) {
			check(t, unix.Mount(dir, dir+"/sub", "", unix.MS_BIND, ""))
			t.Cleanup(func() { check(t, unix.Unmount(dir+"/sub", 0)) })
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, m := newPlace(t), mount(t)
			dir := prepare(t, p, test.bytes, test.inodes)
			if test.spoil != nil {
				test.spoil(t, dir)
			}
			before := usage(t, m, prepared)
			w, err := verify(t, m, dir, test.symlinks)
			if test.ok && (err != nil || w.Project != prepared || w.Limit != before.Hard) {
				t.Errorf("got %+v, %v", w, err)
			}
			if !test.ok {
				wantCode(t, err, errcode.ResourceLimitsUnsupported)
			}
			t.Log(err)
			if after := usage(t, m, prepared); after != before {
				t.Errorf("it was changed: %+v, was %+v", after, before)
			}
		})
	}
}

// Proves: S-024.
func TestWorkspaceFull(t *testing.T) {
	p, m := newPlace(t), mount(t)
	dir := prepare(t, p, "16m", "2048")
	write(t, dir+"/big", string(make([]byte, 9*mib)))
	fd, err := unix.Open(quotaMount, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	check(t, sys.SetProjectLimits(fd, prepared, 8*mib/512, 2048))
	_, err = verify(t, m, dir, true)
	wantCode(t, err, errcode.ResourceLimitsUnsupported)
	t.Log(err)
}

// It shows that a workspace is neither the mount itself, nor on another file
// system, nor what sage gave to a container.
func TestWorkspacePlace(t *testing.T) {
	p, m := newPlace(t), mount(t)
	if _, err := verify(t, m, quotaMount, true); err == nil {
		t.Error("the mount itself: taken")
	}
	if _, err := verify(t, m, plainMount, true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another file system: got %v, want %v", err, fs.ErrNotExist)
	}
	record := assign(t, m, p.request(4*mib))
	_, err := verify(t, m, p.upper(), true)
	wantCode(t, err, errcode.ResourceLimitsUnsupported)
	check(t, m.Release(record))
}

// Proves: G-16: relaxed between create and start, it is noticed.
func TestWorkspaceAgain(t *testing.T) {
	p, m := newPlace(t), mount(t)
	dir := prepare(t, p, "8m", "2048")
	w, err := verify(t, m, dir, true)
	check(t, err)
	fd, err := unix.Open(p.dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	check(t, m.CheckWorkspace(fd, "/workspace", w))
	setProject(t, dir, prepared+1, true)
	wantCode(t, m.CheckWorkspace(fd, "/workspace", w), errcode.EnforcementFailed)
	setProject(t, dir, prepared, true)
	check(t, sys.SetProjectLimits(fdOf(t), prepared, 0, 2048))
	wantCode(t, m.CheckWorkspace(fd, "/workspace", w), errcode.EnforcementFailed)
}

func fdOf(t *testing.T) int {
	t.Helper()
	fd, err := unix.Open(quotaMount, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(t, err)
	t.Cleanup(func() { check(t, unix.Close(fd)) })
	return fd
}
