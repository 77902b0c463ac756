//go:build vm

package sys_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

// It shows that a project is set and read on what can be opened and, where the
// kernel is 6.17 or later, on what cannot; and that a generation is the inode's.
func TestProject(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if magic, err := sys.FSMagic(fd); err != nil || magic != unix.XFS_SUPER_MAGIC {
		t.Fatalf("%s: saw file system %#x (%v), want XFS for this test", dir, magic, err)
	}
	a, err := sys.GetAttributes(fd)
	if err != nil {
		t.Fatal(err)
	}
	a.Project, a.Flags = 4711, a.Flags|sys.ProjectInherit
	if err := sys.SetAttributes(fd, a); err != nil {
		t.Fatal(err)
	}
	if got, err := sys.GetAttributes(fd); err != nil || got.Project != 4711 || got.Flags&sys.ProjectInherit == 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := sys.Generation(fd); err != nil {
		t.Error(err)
	}
	for name, make := range map[string]func(path string) error{
		"symlink": func(path string) error { return os.Symlink("nowhere", path) },
		"fifo":    func(path string) error { return unix.Mkfifo(path, 0o600) },
		"device":  func(path string) error { return unix.Mknod(path, unix.S_IFCHR, 0) },
	} {
		if err := make(dir + "/" + name); err != nil {
			t.Fatal(err)
		}
		a, err := sys.GetAttributesAt(fd, name)
		if errors.Is(err, unix.ENOSYS) {
			t.Logf("%s: before Linux 6.17: %v", name, err)
			continue
		}
		if err != nil || a.Project != 4711 {
			t.Errorf("%s: got project %d, %v, want its directory's", name, a.Project, err)
		}
		a.Project = 4712
		if err := sys.SetAttributesAt(fd, name, a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if a, err = sys.GetAttributesAt(fd, name); err != nil || a.Project != 4712 {
			t.Errorf("%s: got project %d, %v", name, a.Project, err)
		}
	}
}

// TestProjectUsage asks where there is no quota: an error, never zeros.
func TestProjectUsage(t *testing.T) {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if u, err := sys.GetProjectUsage(fd, 1); err == nil {
		t.Errorf("got %+v without quotas", u)
	}
	if err := sys.SetProjectLimits(fd, 1, 8, 1); err == nil {
		t.Error("limits without quotas: taken")
	}
}
