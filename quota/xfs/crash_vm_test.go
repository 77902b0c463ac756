//go:build vm

package xfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/quota"
	"github.com/sage-sandbox/sage/quota/xfs"
)

func assignAndExit(dir string, bytes uint64) error {
	m, err := xfs.Open(quotaMount)
	if err != nil {
		return err
	}
	defer m.Close()
	_, err = m.Assign(placeAt(dir).request(bytes))
	return err
}

func releaseAndExit(dir string) error {
	m, err := xfs.Open(quotaMount)
	if err != nil {
		return err
	}
	defer m.Close()
	record, err := m.Find(placeAt(dir).owner)
	if err != nil {
		return err
	}
	return m.Release(record)
}

// changes are the calls that change something, or are between two that do.
// strace counts each of them for itself.
var changes = strings.Fields("symlinkat renameat unlinkat mkdirat fchmodat ioctl quotactl_fd openat2 flock getdents64 readlinkat")

// killedAt runs a role that is killed at the nth of those calls, and says
// whether it got as far.
func killedAt(t *testing.T, call string, n int, role, dir string) bool {
	t.Helper()
	cmd := exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace="+call,
		"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n), self(t), "child", role, dir)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !strings.Contains(err.Error(), "killed") && exit.ExitCode() != 137 {
		t.Fatalf("%s at %s %d: %v: %s", role, call, n, err, out)
	}
	return true
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	check(t, err)
	return path
}

// It shows that kill -9 at any call of an assignment leaves what the container's
// deletion finds and takes back, and what a sweep takes back where the state
// directory is gone.
func TestKilledAssign(t *testing.T) {
	killed(t, "assign", func(t *testing.T, p place, m *xfs.Mount, n int) {
		if n%2 == 0 { // delete --force
			record, err := m.Find(p.owner)
			if err == nil {
				err = m.Release(record)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				check(t, err)
			}
		}
	})
}

// It shows the same of a release, after which a create of the same container
// goes through, too.
func TestKilledRelease(t *testing.T) {
	killed(t, "release", func(t *testing.T, p place, m *xfs.Mount, n int) {
		if n%2 == 0 {
			check(t, m.Release(assign(t, m, p.request(4*mib))))
		}
	})
}

func killed(t *testing.T, role string, after func(t *testing.T, p place, m *xfs.Mount, n int)) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Fatal("want strace, which kills at a chosen call")
	}
	for _, call := range changes {
		n := 1
		for killedOnce(t, call, n, role, after) {
			n++
		}
		t.Logf("%s: killed at each of its %d calls of %s", role, n-1, call)
	}
}

func killedOnce(t *testing.T, call string, n int, role string, after func(t *testing.T, p place, m *xfs.Mount, n int)) bool {
	if n > 100 {
		t.Fatal("it never gets through")
	}
	p, m := newPlace(t), mount(t)
	if n%3 != 0 && call != "renameat" { // which is for a tree that is empty
		write(t, p.upper()+"/f", "x")
	}
	if role == "release" {
		assign(t, m, p.request(4*mib))
	}
	reached := killedAt(t, call, n, role, p.dir)
	after(t, p, m, n)
	check(t, os.RemoveAll(p.dir))
	waitFor(t, func() bool {
		_, err := m.Sweep()
		check(t, err)
		return len(registry(t)) == 0
	})
	return reached
}

// cycles assigns and releases, and holds every id for itself meanwhile.
func cycles(dir string, n int) error {
	m, err := xfs.Open(quotaMount)
	if err != nil {
		return err
	}
	defer m.Close()
	for i := range n {
		p := placeAt(fmt.Sprintf("%s/%d-%d", dir, os.Getpid(), i))
		if err := p.make(); err != nil {
			return err
		}
		if err := cycle(m, p, dir); err != nil {
			return fmt.Errorf("cycle %d: %w", i, err)
		}
	}
	return nil
}

func cycle(m *xfs.Mount, p place, dir string) error {
	r := p.request(1 * mib)
	r.IDs = quota.Range{First: 170000, Last: 170011} // so that they meet
	record, err := m.Assign(r)
	// What others have just given back still counts for a moment.
	for end := time.Now().Add(time.Minute); err != nil && strings.Contains(err.Error(), "no id of the range is free") && time.Now().Before(end); record, err = m.Assign(r) {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	mine := fmt.Sprint(dir, "/held-", record.Project)
	if err := os.Mkdir(mine, 0o700); err != nil {
		return fmt.Errorf("another has the same id: %w", err)
	}
	if err := touch(p.upper() + "/f"); err != nil {
		return err
	}
	if err := m.ReadBack(record.Project, record.Limit); err != nil {
		return err
	}
	if err := os.Remove(mine); err != nil {
		return err
	}
	if err := os.RemoveAll(p.upper()); err != nil {
		return err
	}
	if err := m.Release(record); err != nil {
		return err
	}
	return os.RemoveAll(p.dir)
}

// It shows 500 cycles, 8 at a time in processes of their own: no id is two
// containers' at once, and ids, limits and counts are back to the start.
func TestParallel(t *testing.T) {
	p, m := newPlace(t), mount(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if out, err := exec.Command(self(t), "child", "cycles", p.dir, "63").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	waitFor(t, func() bool {
		_, err := m.Sweep()
		check(t, err)
		return len(registry(t)) == 0
	})
	for id := quota.ProjectID(170000); id <= 170011; id++ {
		if u := usage(t, m, id); u != (quota.Usage{}) {
			t.Errorf("project %d: got %+v, want nothing", id, u)
		}
	}
}

// It shows that a sweep makes sense of a registry that somebody damaged.
func TestDamaged(t *testing.T) {
	p, m := newPlace(t), mount(t)
	r := p.request(4 * mib)
	record := assign(t, m, r)
	sage := quotaMount + "/.sage/"
	id := fmt.Sprint(record.Project)
	check(t, os.Remove(sage+"ids/"+id))
	check(t, os.Symlink("{", sage+"ids/"+id))
	check(t, os.Symlink("x", sage+"ids/garbage"))
	check(t, os.Symlink("77", sage+"owners/nobody"))
	check(t, os.Symlink("none", sage+"retired/x"))
	check(t, os.Mkdir(sage+"trees/nobody", 0o700))
	check(t, touch(sage+"trees/nobody/f"))
	swept, err := m.Sweep()
	check(t, err)
	t.Logf("%+v", swept)
	if u := usage(t, m, record.Project); u.Hard != r.Limit {
		t.Errorf("got limits %+v, want them kept while the tree counts", u.Hard)
	}
	if swept.Retired != 1 || swept.Removed < 4 {
		t.Errorf("got %+v, want one retired", swept)
	}
}

// It shows that what a container nested deep is removed, however deep.
func TestDeepTree(t *testing.T) {
	p, m := newPlace(t), mount(t)
	r := p.request(64 * mib)
	record := assign(t, m, r)
	fd, err := unix.Open(m.Dir(r.Token, "tmp"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(t, err)
	for range 5000 {
		check(t, unix.Mkdirat(fd, "d", 0o755))
		check(t, unix.Mknodat(fd, "f", unix.S_IFREG|0o644, 0))
		next, err := unix.Openat(fd, "d", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		check(t, errors.Join(err, unix.Close(fd)))
		fd = next
	}
	check(t, unix.Close(fd))
	check(t, m.Release(record))
	if _, err := os.Lstat(m.Dir(r.Token, "")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want it gone", err)
	}
}
