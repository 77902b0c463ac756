package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var unpacked struct {
	once sync.Once
	dir  string
	err  error
}

// Busybox returns a Busybox root file system, unpacked once per test process
// and shared: nobody may write to it. PrivateRoot gives a copy.
func Busybox(tb testing.TB) string {
	tb.Helper()
	unpacked.once.Do(func() {
		unpacked.dir = filepath.Join(Scratch(tb), "busybox")
		unpacked.err = unpackTo(tb, unpacked.dir)
	})
	if unpacked.err != nil {
		tb.Fatalf("harness: Busybox root file system: %v", unpacked.err)
	}
	return unpacked.dir
}

// tar keeps what archive/tar would need code for: links, modes, owners.
func unpackTo(tb testing.TB, dir string) error {
	tb.Helper()
	archive, err := busyboxTar(tb)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	_, err = Output(exec.Command("tar", "-xpf", archive, "-C", dir))
	return err
}

// busyboxTar makes the archive on first use, so that the ring also runs without
// make.
func busyboxTar(tb testing.TB) (string, error) {
	tb.Helper()
	archive := filepath.Join(Cache(tb), "rootfs", "busybox.tar")
	if _, err := os.Stat(archive); !errors.Is(err, fs.ErrNotExist) {
		return archive, err
	}
	script := filepath.Join(Top(tb), "integration", "rootfs", "build.sh")
	cmd := exec.Command("sh", script, "busybox")
	cmd.Env = append(os.Environ(), "SAGE_CACHE="+Cache(tb))
	if _, err := Output(cmd); err != nil {
		return "", fmt.Errorf("%s is missing and %s failed: %w", archive, script, err)
	}
	return archive, nil
}

// PrivateRoot returns a copy of the Busybox tree that the test may write to.
func PrivateRoot(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(TempDir(tb), "rootfs")
	if _, err := Output(exec.Command("cp", "-a", Busybox(tb), dir)); err != nil {
		tb.Fatalf("harness: %v", err)
	}
	return dir
}

// TempDir is a folder of the test below Scratch. Unlike testing's own it is
// open to other users and its path stays short enough for a Unix socket.
func TempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(Scratch(tb), "t")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Errorf("harness: %v", err)
		}
	})
	return dir
}
