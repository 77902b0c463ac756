//go:build kernel

package workload

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// unpackImage unpacks the workload tree for the whole of a test, below the root
// of every container: nobody may write to it. Into memory, because 55 000 files
// take a disk's file system half a minute here.
func unpackImage(t *testing.T) string {
	t.Helper()
	dir := harness.TempDir(t)
	if err := unix.Mount("workload", dir, "tmpfs", 0, "mode=755"); err != nil {
		t.Fatal(os.NewSyscallError("mount tmpfs", err))
	}
	t.Cleanup(func() { unmount(t, dir) })
	unpack := exec.Command("tar", "-xpf", archive(t), "--xattrs", "--xattrs-include=security.capability", "-C", dir)
	if _, err := harness.Output(unpack); err != nil {
		t.Fatal(err)
	}
	// The programs lie in the image: a mounted folder would close AF_UNIX.
	if _, err := harness.Output(exec.Command("cp", "-r", "testdata", filepath.Join(dir, "workload"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// archive makes the tree each time; that does nothing if it is as the script
// has it.
func archive(t *testing.T) string {
	t.Helper()
	build := exec.Command("sh", filepath.Join(harness.Top(t), "integration", "rootfs", "build.sh"), "workload")
	build.Env = append(os.Environ(), "SAGE_CACHE="+harness.Cache(t))
	if _, err := harness.Output(build); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(harness.Cache(t), "rootfs", "workload.tar")
}

// overlay returns a root of the test's own, made as engines make it: the image
// below, an empty writable layer on it.
func overlay(t *testing.T, image string) string {
	t.Helper()
	dir := harness.TempDir(t)
	upper, work, root := filepath.Join(dir, "upper"), filepath.Join(dir, "work"), filepath.Join(dir, "root")
	for _, path := range []string{upper, work, root} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	options := "lowerdir=" + image + ",upperdir=" + upper + ",workdir=" + work
	if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
		t.Fatal(os.NewSyscallError("mount overlay", err))
	}
	t.Cleanup(func() { unmount(t, root) })
	return root
}

func unmount(t *testing.T, dir string) {
	t.Helper()
	// Detached: a container's last process may be on its way out.
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		t.Error(os.NewSyscallError("unmount", err))
	}
}
