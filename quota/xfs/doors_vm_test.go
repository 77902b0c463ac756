//go:build vm

package xfs_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/quota"
)

// fill writes until it fails, and says how much that was.
func fill(f *os.File) (wrote int) {
	buf := make([]byte, 16<<10)
	for {
		n, err := f.Write(buf)
		wrote += n
		if err != nil {
			return wrote
		}
	}
}

func noRoom(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 20 s")
		}
	}
}

// until makes things by number until there is no room.
func until(t *testing.T, try func(i int) error) int {
	t.Helper()
	for i := 0; ; i++ {
		if err := try(i); noRoom(err) {
			return i
		} else if err != nil {
			t.Fatalf("number %d: %v", i, err)
		}
	}
}

// Proves: S-141, S-143: writes stop at the limit with ENOSPC or EDQUOT through
// every door, in the merged root and in the directories of sage's making, and
// nothing is taken away.
func TestDoors(t *testing.T) {
	const limit = 4 * mib
	doors := map[string]func(t *testing.T, dir string){
		"write": func(t *testing.T, dir string) {
			f := create(t, dir+"/f")
			if n := fill(f); n > limit || n < limit-64<<10-metadata {
				t.Errorf("wrote %d of %d bytes", n, limit)
			}
		},
		"fallocate": func(t *testing.T, dir string) {
			f := create(t, dir+"/f")
			if err := unix.Fallocate(int(f.Fd()), 0, 0, limit+4096); !noRoom(err) {
				t.Errorf("got %v, want no room", err)
			}
		},
		"fallocate beyond the end": func(t *testing.T, dir string) {
			f := create(t, dir+"/f")
			until(t, func(i int) error {
				return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, int64(i)<<16, 1<<16)
			})
		},
		"sparse": func(t *testing.T, dir string) {
			f := create(t, dir+"/f")
			check(t, f.Truncate(1<<40)) // no blocks, which is what counts
			until(t, func(i int) error {
				_, err := f.WriteAt([]byte{1}, int64(i)<<20)
				return err
			})
		},
		"mmap of a sparse file": func(t *testing.T, dir string) {
			f := create(t, dir+"/f")
			check(t, unix.Fallocate(int(f.Fd()), 0, 0, 3*mib))
			if err := unix.Fallocate(int(f.Fd()), 0, 3*mib, 2*mib); !noRoom(err) {
				t.Errorf("got %v, want no room", err)
			}
		},
		"reflink": func(t *testing.T, dir string) {
			f := create(t, dir+"/f")
			_, err := f.Write(make([]byte, mib))
			check(t, errors.Join(err, f.Sync()))
			until(t, func(i int) error {
				to, err := os.OpenFile(fmt.Sprint(dir, "/r", i), os.O_CREATE|os.O_RDWR, 0o600)
				if err != nil {
					return err
				}
				defer to.Close()
				return unix.IoctlFileClone(int(to.Fd()), int(f.Fd()))
			})
		},
		"small files": func(t *testing.T, dir string) {
			if n := until(t, func(i int) error { return touch(fmt.Sprint(dir, "/s", i)) }); n > limit/quota.BytesPerInode {
				t.Errorf("made %d files", n)
			}
		},
		"directories": func(t *testing.T, dir string) {
			until(t, func(i int) error { return os.Mkdir(fmt.Sprint(dir, "/d", i), 0o755) })
		},
		"nested directories": func(t *testing.T, dir string) {
			fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			check(t, err)
			until(t, func(int) error {
				err := unix.Mkdirat(fd, "d", 0o755)
				if err != nil {
					return err
				}
				next, err := unix.Openat(fd, "d", unix.O_RDONLY|unix.O_CLOEXEC, 0)
				check(t, errors.Join(err, unix.Close(fd)))
				fd = next
				return nil
			})
			check(t, unix.Close(fd))
		},
		"symlinks": func(t *testing.T, dir string) {
			target := strings.Repeat("x", 1000)
			until(t, func(i int) error { return os.Symlink(target, fmt.Sprint(dir, "/l", i)) })
		},
		"xattrs": func(t *testing.T, dir string) {
			f := create(t, dir+"/f")
			value := make([]byte, 60000)
			until(t, func(i int) error { return unix.Fsetxattr(int(f.Fd()), fmt.Sprint("user.x", i), value, 0) })
		},
		"names without a name": func(t *testing.T, dir string) {
			fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
			if errors.Is(err, unix.EOPNOTSUPP) && strings.HasSuffix(dir, "merged") && os.Getenv("SAGE_VM") == "6.1" {
				return // overlayfs has this door since Linux 6.3
			}
			check(t, err)
			f := os.NewFile(uintptr(fd), "tmpfile")
			defer f.Close()
			if n := fill(f); n > limit {
				t.Errorf("wrote %d bytes", n)
			}
		},
		"unlinked and open": func(t *testing.T, dir string) {
			f := create(t, dir+"/f")
			check(t, os.Remove(dir+"/f"))
			if n := fill(f); n > limit {
				t.Errorf("wrote %d bytes", n)
			}
			if err := touch(dir + "/g"); !noRoom(err) {
				t.Errorf("beside it: got %v, want no room", err)
			}
		},
	}
	for name, door := range doors {
		for _, where := range []string{"merged", "tmp"} {
			t.Run(name+" in "+where, func(t *testing.T) {
				p, m := newPlace(t), mount(t)
				merged := p.overlay(t)
				r := p.request(limit)
				record := assign(t, m, r)
				dir := merged
				if where == "tmp" {
					dir = m.Dir(r.Token, "tmp")
				}
				door(t, dir)
				u := usage(t, m, record.Project)
				most := uint64(limit)
				if name == "sparse" {
					most += metadata
				}
				if u.Bytes > most || u.Inodes > limit/quota.BytesPerInode {
					t.Errorf("in use: %d bytes, %d inodes, want at most %d and %d", u.Bytes, u.Inodes, limit, limit/quota.BytesPerInode)
				}
				if !nothingStays[name] && u.Bytes < limit-mib-256<<10 && u.Inodes < limit/quota.BytesPerInode-1 {
					t.Errorf("in use: %d bytes, %d inodes: it stopped long before the limit", u.Bytes, u.Inodes)
				}
				check(t, m.Release(record))
			})
		}
	}
}

// nothingStays are doors at which what was written is gone when they are done.
var nothingStays = map[string]bool{"fallocate": true, "names without a name": true}

// metadata is what a file of 4 MiB and its directory take besides. XFS charges
// a write before it is written back with its data only; a file of many pieces
// needs blocks for their list, which come on top of a limit that is reached.
const metadata = 64 << 10

func create(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	check(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func touch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// Proves: G-16: nothing gets into a project from outside, by link or rename,
// nor out of it, and nothing leaves one container's for another's.
func TestAcross(t *testing.T) {
	p, q, m := newPlace(t), newPlace(t), mount(t)
	write(t, p.dir+"/outside", "x")
	check(t, os.Mkdir(p.dir+"/outdir", 0o755))
	a, b := assign(t, m, p.request(4*mib)), assign(t, m, q.request(4*mib))
	if a.Project == b.Project {
		t.Fatal("two containers in one project")
	}
	write(t, q.upper()+"/f", "x")
	write(t, p.upper()+"/f", "x")
	for name, err := range map[string]error{
		"link from outside":       os.Link(p.dir+"/outside", p.upper()+"/l"),
		"rename from outside":     os.Rename(p.dir+"/outside", p.upper()+"/r"),
		"directory from outside":  os.Rename(p.dir+"/outdir", p.upper()+"/d"),
		"link from another's":     os.Link(q.upper()+"/f", p.upper()+"/l2"),
		"rename from another's":   os.Rename(q.upper()+"/f", p.upper()+"/r2"),
		"exchange with another's": unix.Renameat2(unix.AT_FDCWD, q.upper()+"/f", unix.AT_FDCWD, p.upper()+"/f", unix.RENAME_EXCHANGE),
	} {
		if !errors.Is(err, unix.EXDEV) {
			t.Errorf("%s: got %v, want EXDEV", name, err)
		}
	}
	// XFS looks only at where the first of two that change places goes to. It
	// takes a directory of another project in the same mount, which no container
	// has: its upper layer, its own directories and workspaces are mounts apart.
	err := unix.Renameat2(unix.AT_FDCWD, p.upper()+"/f", unix.AT_FDCWD, p.dir+"/outside", unix.RENAME_EXCHANGE)
	t.Logf("exchange with a directory that hands nothing on: %v", err)
	check(t, errors.Join(m.Release(a), m.Release(b)))
}
