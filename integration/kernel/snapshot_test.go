//go:build kernel

package kernel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestSnapshotSees leaves one of each kind on the host and takes it away again:
// every "nothing is left" of this ring rests on the count.
func TestSnapshotSees(t *testing.T) {
	dir := harness.TempDir(t)
	scope := harness.Scope{Roots: []string{filepath.Join(dir, "root")}}
	check(t, os.Mkdir(scope.Roots[0], 0o755))
	before := harness.Snapshot(t, scope)
	undo := leave(t, dir, scope.Roots[0])
	var kinds []string
	for _, line := range harness.Diff(before, harness.Snapshot(t, scope)) {
		kinds = append(kinds, strings.Join(strings.Fields(line)[:2], " "))
	}
	want := []string{"+ mount", "+ cgroup", "+ process", "+ netns", "+ loop", "+ fd", "+ state"}
	if got := slices.Compact(kinds); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	undo()
	if rest := harness.Settle(t, scope, before); len(rest) != 0 {
		t.Errorf("still there: %q", rest)
	}
}

func leave(t *testing.T, dir, root string) (undo func()) {
	t.Helper()
	check(t, unix.Mount("tmpfs", root, "tmpfs", 0, ""))
	file, err := os.Create(filepath.Join(root, "state.json"))
	check(t, err)
	cgroup := filepath.Join(anyHierarchy(), harness.NewID())
	check(t, os.Mkdir(cgroup, 0o755))
	sleep := exec.Command("unshare", "--net", "sleep", "1000")
	check(t, harness.StartCommand(sleep))
	harness.Eventually(t, "the process has its namespace", func() bool { return ownNetwork(sleep.Process.Pid) })
	image := filepath.Join(dir, "image")
	check(t, os.WriteFile(image, make([]byte, 1<<20), 0o600))
	loop, err := harness.Output(exec.Command("losetup", "--find", "--show", image))
	check(t, err)
	return func() {
		_, err := harness.Output(exec.Command("losetup", "--detach", strings.TrimSpace(loop)))
		check(t, err)
		check(t, sleep.Process.Kill())
		_ = harness.WaitCommand(sleep) // It says that it was killed.
		removeCgroup(t, cgroup)
		check(t, file.Close())
		check(t, unix.Unmount(root, 0))
	}
}

func ownNetwork(pid int) bool {
	ours, err1 := os.Readlink("/proc/self/ns/net")
	theirs, err2 := os.Readlink(filepath.Join("/proc", fmt.Sprint(pid), "ns/net"))
	return err1 == nil && err2 == nil && ours != theirs
}
