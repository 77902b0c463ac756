//go:build vm

package hardlimits

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

const (
	cgroups = "/sys/fs/cgroup"
	// quotaDir is where the guest has XFS with project quotas.
	quotaDir = "/srv/sage-xfs"
)

func TestMain(m *testing.M) {
	if err := guestIsComplete(); err != nil {
		fmt.Fprintln(os.Stderr, "hardlimits:", err)
		os.Exit(1)
	}
	harness.Main(m, harness.Root|harness.Mounts)
}

// guestIsComplete fails the ring where a limit would hold for want of what it
// limits: without swap, no swap is used anywhere.
func guestIsComplete() error {
	var st unix.Statfs_t
	for dir, want := range map[string]int64{cgroups: unix.CGROUP2_SUPER_MAGIC, quotaDir: unix.XFS_SUPER_MAGIC} {
		if err := unix.Statfs(dir, &st); err != nil {
			return &os.PathError{Op: "statfs", Path: dir, Err: err}
		}
		if st.Type != want {
			return fmt.Errorf("%s: saw a file system of type %#x, want %#x", dir, st.Type, want)
		}
	}
	swaps, err := os.ReadFile("/proc/swaps")
	if err == nil && strings.Count(string(swaps), "\n") < 2 {
		err = fmt.Errorf("/proc/swaps: saw %q, want some swap", swaps)
	}
	return err
}
