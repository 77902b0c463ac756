package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Workload unpacks Debian with the programs that people run for the whole of a
// test, to lie below the roots of its containers: see [Overlay]. Into memory,
// where it takes 1.8 GB, because 60 000 files take a disk's file system half a
// minute here.
func Workload(tb testing.TB) string {
	tb.Helper()
	dir := TempDir(tb)
	if err := unix.Mount("workload", dir, "tmpfs", 0, "mode=755"); err != nil {
		tb.Fatal(os.NewSyscallError("mount tmpfs", err))
	}
	tb.Cleanup(func() { unmount(tb, dir) })
	unpack := exec.Command("tar", "-xpf", workloadTar(tb), "--xattrs", "--xattrs-include=security.capability", "-C", dir)
	if _, err := Output(unpack); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// workloadTar makes the tree each time; that does nothing if it is as the script
// has it.
func workloadTar(tb testing.TB) string {
	tb.Helper()
	build := exec.Command("sh", filepath.Join(Top(tb), "integration", "rootfs", "build.sh"), "workload")
	build.Env = append(os.Environ(), "SAGE_CACHE="+Cache(tb))
	if _, err := Output(build); err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(Cache(tb), "rootfs", "workload.tar")
}

// Overlay returns a root of the test's own, made as engines make it: the tree
// below, an empty writable layer on it.
func Overlay(tb testing.TB, tree string) string {
	tb.Helper()
	dir := TempDir(tb)
	upper, work, root := filepath.Join(dir, "upper"), filepath.Join(dir, "work"), filepath.Join(dir, "root")
	for _, path := range []string{upper, work, root} {
		if err := os.Mkdir(path, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	options := "lowerdir=" + tree + ",upperdir=" + upper + ",workdir=" + work
	if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
		tb.Fatal(os.NewSyscallError("mount overlay", err))
	}
	tb.Cleanup(func() { unmount(tb, root) })
	return root
}

func unmount(tb testing.TB, dir string) {
	tb.Helper()
	// Detached: a container's last process may be on its way out.
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		tb.Error(os.NewSyscallError("unmount", err))
	}
}
