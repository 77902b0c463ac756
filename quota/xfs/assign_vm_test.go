//go:build vm

package xfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/quota"
	"github.com/sage-sandbox/sage/quota/xfs"
)

const mib = 1 << 20

// Proves: S-139, G-01: what cannot hold a limit is refused, by name of what is
// missing.
func TestOpen(t *testing.T) {
	if _, err := xfs.Open(quotaMount); err != nil {
		t.Errorf("%s: %v", quotaMount, err)
	}
	below := quotaMount + "/below"
	check(t, os.MkdirAll(below, 0o755))
	t.Cleanup(func() { check(t, os.Remove(below)) })
	for name, path := range map[string]string{
		"without prjquota": plainMount, "no XFS": "/dev/shm", "below the mount point": below,
		"relative": "srv/sage-xfs", "missing": "/srv/none", "a file": "/etc/passwd",
	} {
		m, err := xfs.Open(path)
		if m != nil {
			t.Errorf("%s: opened", name)
		}
		wantCode(t, err, errcode.ResourceLimitsUnsupported)
		t.Logf("%s: %v", name, err)
	}
}

// Proves: S-139: a mount that counts and does not hold, and one on which a
// program left there would run with another's rights, are refused.
func TestOpenOptions(t *testing.T) {
	remount := func(options string, flags uintptr) {
		t.Helper()
		check(t, unix.Unmount(plainMount, 0))
		check(t, unix.Mount("/dev/vdb", plainMount, "xfs", flags, options))
	}
	safe := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	t.Cleanup(func() { remount("", safe) })
	for _, test := range []struct {
		name, options string
		flags         uintptr
		ok            bool
	}{
		{"good", "prjquota", safe, true},
		{"counts only", "pqnoenforce", safe, false},
		{"suid", "prjquota", unix.MS_NODEV, false},
		{"dev", "prjquota", unix.MS_NOSUID, false},
		{"read-only", "prjquota", safe | unix.MS_RDONLY, false},
	} {
		remount(test.options, test.flags)
		m, err := xfs.Open(plainMount)
		if (err == nil) != test.ok {
			t.Errorf("%s: got %v", test.name, err)
		}
		if m != nil {
			m.Close()
		}
	}
}

// Proves: S-141, S-145, attack 12. Everything that is written through an
// engine's overlay, and in the directories that sage makes, counts.
func TestAssign(t *testing.T) {
	p, m := newPlace(t), mount(t)
	merged := p.overlay(t)
	r := p.request(4 * mib)
	record := assign(t, m, r)
	if !ids.Has(record.Project) || !record.Empty {
		t.Errorf("got %+v, want an id of the range, and a tree that was empty", record)
	}
	for _, path := range []string{p.upper(), p.work(), p.work() + "/work", m.Dir(r.Token, "tmp"), m.Dir(r.Token, "shm")} {
		if id, inherit := projectOf(t, path); id != uint32(record.Project) || !inherit {
			t.Errorf("%s: got project %d, inherit %t", path, id, inherit)
		}
	}
	info, err := os.Stat(m.Dir(r.Token, "tmp"))
	check(t, err)
	if got := info.Mode().Perm() | info.Mode()&fs.ModeSticky; got != fs.ModeSticky|0o777 {
		t.Errorf("mode of tmp: got %v", got)
	}
	root, err := unix.Open(merged, unix.O_PATH|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(root)
	check(t, m.CheckEffect(root, "/", record.Project, true))
	wantCode(t, m.CheckEffect(root, "/", record.Project+1, false), errcode.EnforcementFailed)
	check(t, m.ReadBack(record.Project, r.Limit))
	found, err := m.CheckOwned(p.owner)
	if err != nil || found != record && found.Token != record.Token {
		t.Errorf("got %+v, %v, want %+v", found, err, record)
	}
	check(t, m.Release(record))
	if _, err := m.Find(p.owner); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that it has none any more", err)
	}
	// Room for an overlay's work directory, and no more.
	kept := quota.Limit{Bytes: r.Limit.Bytes + mib, Inodes: r.Limit.Inodes + 16}
	if u := usage(t, m, record.Project); u.Hard != kept {
		t.Errorf("while the snapshot is there, got limits %+v, want %+v", u.Hard, kept)
	}
}

// Proves: attack 12. What was in the tree before counts, and a tree that has
// more than the limit already is refused (S-024).
func TestTreeWithFiles(t *testing.T) {
	p, m := newPlace(t), mount(t)
	deep := p.upper() + "/a/b/c"
	check(t, os.MkdirAll(deep, 0o755))
	write(t, deep+"/f", "x")
	check(t, os.Link(deep+"/f", p.upper()+"/other-name"))
	check(t, os.Symlink("nowhere", deep+"/l"))
	check(t, unix.Mknod(deep+"/whiteout", unix.S_IFCHR, 0))
	check(t, unix.Mkfifo(deep+"/fifo", 0o644))
	write(t, p.work()+"/left", "x")
	record := assign(t, m, p.request(4*mib))
	if record.Empty {
		t.Error("got Empty for a tree with files")
	}
	check(t, filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		in, _ := filepath.Rel(p.dir, path)
		if err == nil && (d.IsDir() || d.Type().IsRegular()) && (in[0] == 'u' || in[0] == 'w') {
			if id, inherit := projectOf(t, path); id != uint32(record.Project) || inherit != d.IsDir() {
				t.Errorf("%s: got project %d, inherit %t", path, id, inherit)
			}
		}
		return err
	}))
	f, err := os.OpenFile(deep+"/f", os.O_WRONLY|os.O_APPEND, 0)
	check(t, err)
	defer f.Close()
	wrote := fill(f)
	if wrote > 4*mib || wrote < 3*mib {
		t.Errorf("wrote %d bytes to a file that was there before, want at most %d", wrote, 4*mib)
	}
	// Linux before 6.17 has no call for three of the inodes: they are taken off.
	u := usage(t, m, record.Project)
	if apart := (4*mib)/4096 - u.Hard.Inodes; apart != 0 && apart != 3 {
		t.Errorf("got a limit of %d inodes", u.Hard.Inodes)
	}
	t.Logf("limit %+v, in use %d bytes and %d inodes", u.Hard, u.Bytes, u.Inodes)
	check(t, m.Release(record))
}

func TestTreeTooLarge(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, p place){
		"bytes": func(t *testing.T, p place) { write(t, p.upper()+"/f", string(make([]byte, 5*mib))) },
		"inodes": func(t *testing.T, p place) {
			for i := range 1100 {
				check(t, os.Mkdir(filepath.Join(p.upper(), "d"+string(rune('a'+i%26))+filepath.Base(t.TempDir())+xfs.NewToken()), 0o755))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, m := newPlace(t), mount(t)
			make(t, p)
			_, err := m.Assign(p.request(4 * mib))
			wantCode(t, err, errcode.LimitExceeded)
			t.Log(err)
			if _, err := m.Find(p.owner); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v, want that nothing is held", err)
			}
		})
	}
}

// Proves: S-139: a tree that is another project's is left alone, also where
// only a part of it is.
func TestForeign(t *testing.T) {
	p, m := newPlace(t), mount(t)
	check(t, os.MkdirAll(p.upper()+"/a/b", 0o755))
	setProject(t, p.upper()+"/a/b", 4711, true)
	_, err := m.Assign(p.request(4 * mib))
	wantCode(t, err, errcode.PermissionDenied)
	if id, _ := projectOf(t, p.upper()+"/a/b"); id != 4711 {
		t.Errorf("got project %d", id)
	}
	q := newPlace(t)
	setProject(t, q.upper(), 4711, true)
	_, err = m.Assign(q.request(4 * mib))
	wantCode(t, err, errcode.PermissionDenied)
}

// Proves: S-140: nothing of another file system is in the tree.
func TestForeignMount(t *testing.T) {
	p, m := newPlace(t), mount(t)
	check(t, os.Mkdir(p.upper()+"/m", 0o755))
	check(t, unix.Mount("tmpfs", p.upper()+"/m", "tmpfs", 0, ""))
	t.Cleanup(func() { check(t, unix.Unmount(p.upper()+"/m", 0)) })
	_, err := m.Assign(p.request(4 * mib))
	if !errors.Is(err, unix.EXDEV) {
		t.Errorf("got %v, want %v", err, unix.EXDEV)
	}
	q := newPlace(t)
	elsewhere := q.request(4 * mib)
	elsewhere.Upper = "/tmp"
	if _, err := m.Assign(elsewhere); err == nil {
		t.Error("took an upper directory on another device")
	}
	elsewhere.Upper = "upper"
	if _, err := m.Assign(elsewhere); err == nil {
		t.Error("took a relative upper directory")
	}
}

// It shows that the next container of a snapshot has its project again, with
// all that counts for it, and another's is refused.
func TestAdopt(t *testing.T) {
	p, m := newPlace(t), mount(t)
	first := assign(t, m, p.request(4*mib))
	f, err := os.OpenFile(p.upper()+"/f", os.O_CREATE|os.O_WRONLY, 0o600)
	check(t, err)
	fill(f) // it must start again, as full as it is
	check(t, f.Close())
	// The same snapshot twice at a time would be two containers in one project.
	check(t, os.Mkdir(p.dir+"/state/c2", 0o755))
	other := p.request(4 * mib)
	other.Owner.ID = "c2"
	_, err = m.Assign(other)
	wantCode(t, err, errcode.PermissionDenied)
	check(t, m.Release(first))
	full := assign(t, m, p.request(4*mib))
	for _, dir := range []string{"", "tmp", "shm"} {
		if id, inherit := projectOf(t, m.Dir(full.Token, dir)); id != uint32(first.Project) || !inherit {
			t.Errorf("%q of a full project: got project %d, inherit %t", dir, id, inherit)
		}
	}
	check(t, m.Release(full))
	second := assign(t, m, p.request(8*mib))
	if second.Project != first.Project || !second.Empty || second.Token == first.Token {
		t.Errorf("got %+v, want project %d and to know that it was empty", second, first.Project)
	}
	check(t, m.ReadBack(second.Project, quota.NewLimit(8*mib, 4096)))
	check(t, m.Release(first)) // of the former assignment: too late
	check(t, m.ReadBack(second.Project, quota.NewLimit(8*mib, 4096)))
	if _, err := m.Find(p.owner); err != nil {
		t.Errorf("after a late release: %v", err)
	}
	// A copy of the tag alone is nobody's.
	q := newPlace(t)
	setProject(t, q.upper(), uint32(second.Project), true)
	_, err = m.Assign(q.request(4 * mib))
	wantCode(t, err, errcode.PermissionDenied)
	check(t, m.Release(second))
}

// It shows that an id is not another's while a file of it is open, and is free
// with no limit left once it is closed.
func TestUnlinkedOpen(t *testing.T) {
	p, m := newPlace(t), mount(t)
	r := p.request(4 * mib)
	r.Upper, r.Work = "", ""
	r.IDs = quota.Range{First: 150000, Last: 150000}
	record := assign(t, m, r)
	f, err := os.OpenFile(m.Dir(r.Token, "tmp")+"/f", os.O_CREATE|os.O_RDWR, 0o600)
	check(t, err)
	defer f.Close()
	check(t, m.Release(record))
	if _, err := os.Lstat(m.Dir(r.Token, "")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want the container's directories gone", err)
	}
	if wrote := fill(f); wrote > 4*mib {
		t.Errorf("wrote %d bytes after the release, want at most %d", wrote, 4*mib)
	}
	_, err = m.Assign(r)
	wantCode(t, err, errcode.ResourceLimitsUnsupported)
	check(t, f.Close())
	again := r
	again.Token = xfs.NewToken()
	waitFor(t, func() bool {
		record, err = m.Assign(again)
		return err == nil
	})
	check(t, m.Release(record))
	waitFor(t, func() bool {
		_, err := m.Sweep()
		check(t, err)
		return usage(t, m, record.Project) == quota.Usage{}
	})
}

// It shows that an id an administrator uses is never taken, though nothing of
// sage's says so.
func TestNotTaken(t *testing.T) {
	p, m := newPlace(t), mount(t)
	dir := p.dir + "/admin"
	check(t, os.Mkdir(dir, 0o755))
	setProject(t, dir, 160001, true)
	fd := fdOf(t)
	check(t, sys.SetProjectLimits(fd, 160002, 8, 0))
	t.Cleanup(func() { check(t, sys.SetProjectLimits(fd, 160002, 0, 0)) })
	r := p.request(4 * mib)
	r.IDs, r.Named = quota.Range{First: 160001, Last: 160003}, quota.Named{160003: true}
	_, err := m.Assign(r)
	wantCode(t, err, errcode.ResourceLimitsUnsupported)
	r.IDs.Last = 160004
	record := assign(t, m, r)
	if record.Project != 160004 {
		t.Errorf("got %d, want the one that is free", record.Project)
	}
	check(t, m.Release(record))
}

// Proves: S-131 for the disk: a limit that another changed between write and
// read is noticed.
func TestRelaxed(t *testing.T) {
	p, m := newPlace(t), mount(t)
	record := assign(t, m, p.request(4*mib))
	fd, err := unix.Open(quotaMount, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	for _, l := range [][2]uint64{{0, 1024}, {8192, 0}, {8200, 1024}, {8192, 1025}, {0, 0}} {
		check(t, sys.SetProjectLimits(fd, uint32(record.Project), l[0], l[1]))
		_, err := m.CheckOwned(p.owner)
		wantCode(t, err, errcode.EnforcementFailed)
	}
	check(t, m.Release(record))
}
