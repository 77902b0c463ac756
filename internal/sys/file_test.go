package sys_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sage-sandbox/sage/internal/sys"
)

// TestReadFile compares with os.ReadFile at all sizes around those of buffers.
func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	dir, err := sys.OpenDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, size := range []int{0, 1, 16<<10 - 1, 16 << 10, 16<<10 + 1, 32 << 10, 100_000} {
		want := bytes.Repeat([]byte("0123456"), size/7+1)[:size]
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, read := range []func() ([]byte, error){
			func() ([]byte, error) { return sys.ReadFile(path) },
			func() ([]byte, error) { return dir.ReadFile("file") },
		} {
			if got, err := read(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: read %d, %v", size, len(got), err)
			}
		}
	}
}

func TestReadFileOfKernel(t *testing.T) {
	for _, path := range []string{"/proc/self/mountinfo", "/proc/self/limits", "/proc/self/cgroup"} {
		got, err := sys.ReadFile(path)
		want, wantErr := os.ReadFile(path)
		if err != nil || wantErr != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v, or not what os.ReadFile gives", path, err)
		}
	}
	if _, err := sys.ReadFile("/proc/self/nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
	if _, err := sys.ReadFile("/proc/self/ns"); err == nil {
		t.Error("a directory can be read")
	}
}

// TestDir follows no link, and reads one.
func TestDir(t *testing.T) {
	dir, err := sys.OpenDir("/proc/self")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	want, _ := os.Readlink("/proc/self/ns/user")
	if got, err := dir.ReadLink("ns/user"); err != nil || got != want {
		t.Errorf("link: %q, %v, want %q", got, err, want)
	}
	if _, err := dir.ReadFile("exe"); err == nil {
		t.Error("a link is followed")
	}
	long := filepath.Join(t.TempDir(), "long")
	if err := os.Symlink(string(bytes.Repeat([]byte("x"), 128)), long); err != nil {
		t.Fatal(err)
	}
	above, err := sys.OpenDir(filepath.Dir(long))
	if err != nil {
		t.Fatal(err)
	}
	defer above.Close()
	if got, err := above.ReadLink("long"); err == nil {
		t.Errorf("a link that may be cut gives %q", got)
	}
}
