//go:build vm

package xfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/quota"
	"github.com/sage-sandbox/sage/quota/xfs"
)

// The guest's disks: see integration/vm.
const (
	quotaMount = "/srv/sage-xfs"
	plainMount = "/srv/plain-xfs"
)

var ids = quota.Range{First: 100000, Last: 199999}

// TestMain is the tests, or a process that one of them started.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "child" {
		os.Exit(m.Run())
	}
	if err := child(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(args []string) error {
	runtime.LockOSThread() // strace counts the calls of each thread apart
	switch args[0] {
	case "assign":
		return assignAndExit(args[1], 4*mib)
	case "assign-big":
		return assignAndExit(args[1], 64*mib)
	case "release":
		return releaseAndExit(args[1])
	case "cycles":
		n, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return cycles(args[1], n)
	}
	return errors.New("unknown role")
}

// place is where one test has its files: overlay directories as an engine makes
// them, and a state root.
type place struct {
	dir   string
	owner xfs.Owner
}

// newPlace makes one that is gone at the end, with what counts for a project.
func newPlace(t *testing.T) place {
	t.Helper()
	dir, err := os.MkdirTemp(quotaMount, "test-") //nolint:usetesting // it must lie on the quota mount
	check(t, err)
	p := placeAt(dir)
	check(t, p.make())
	t.Cleanup(func() {
		check(t, os.RemoveAll(dir))
		m := mount(t)
		_, err := m.Sweep()
		check(t, err)
	})
	return p
}

func placeAt(dir string) place {
	return place{dir, xfs.Owner{ID: "c1", Root: dir + "/state"}}
}

func (p place) upper() string { return p.dir + "/upper" }
func (p place) work() string  { return p.dir + "/work" }

func (p place) make() error {
	for _, dir := range []string{p.upper(), p.work(), p.work() + "/work", p.dir + "/lower", p.dir + "/merged", p.dir + "/state/c1"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (p place) request(bytes uint64) xfs.Request {
	return xfs.Request{
		Owner: p.owner, Token: xfs.NewToken(), Limit: quota.NewLimit(bytes, 4096), IDs: ids,
		Upper: p.upper(), Work: p.work(),
		Dirs: []xfs.Dir{{Name: "tmp", Mode: 0o1777}, {Name: "shm", Mode: 0o1777}},
	}
}

// overlay mounts what the engine would have, and returns the merged root.
func (p place) overlay(t *testing.T) string {
	t.Helper()
	merged := p.dir + "/merged"
	check(t, unix.Mount("overlay", merged, "overlay", 0, fmt.Sprintf("lowerdir=%s/lower,upperdir=%s,workdir=%s", p.dir, p.upper(), p.work())))
	t.Cleanup(func() { check(t, unix.Unmount(merged, 0)) })
	return merged
}

func mount(t *testing.T) *xfs.Mount {
	t.Helper()
	m, err := xfs.Open(quotaMount)
	check(t, err)
	t.Cleanup(m.Close)
	return m
}

func assign(t *testing.T, m *xfs.Mount, r xfs.Request) xfs.Record {
	t.Helper()
	record, err := m.Assign(r)
	check(t, err)
	return record
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code errcode.Code) {
	t.Helper()
	if errcode.Of(err) != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func usage(t *testing.T, m *xfs.Mount, id quota.ProjectID) quota.Usage {
	t.Helper()
	u, err := m.Usage(id)
	check(t, err)
	return u
}

// projectOf opens without following and reads the inode's project.
func projectOf(t *testing.T, path string) (uint32, bool) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	a, err := sys.GetAttributes(fd)
	check(t, err)
	return a.Project, a.Flags&sys.ProjectInherit != 0
}

func setProject(t *testing.T, path string, project uint32, inherit bool) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	a, err := sys.GetAttributes(fd)
	check(t, err)
	a.Project, a.Flags = project, a.Flags&^sys.ProjectInherit
	if inherit {
		a.Flags |= sys.ProjectInherit
	}
	check(t, sys.SetAttributes(fd, a))
}

// registry is what is in it, but for its own folders.
func registry(t *testing.T) (entries []string) {
	t.Helper()
	root := quotaMount + "/.sage"
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(root, path); err == nil && filepath.Dir(rel) != "." {
			entries = append(entries, rel)
		}
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) {
		check(t, err)
	}
	return entries
}

func write(t *testing.T, path, text string) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(text), 0o644))
}
