//go:build vm

package hardlimits

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestRepairQuota: "check --repair" takes back the project of a container that
// nobody deleted, as after a reboot, and leaves that of one that is there.
//
// Proves: S-139.
func TestRepairQuota(t *testing.T) {
	r := cgroupfs.runtime(t, "version: 1\nlinux_quota_mount: "+quotaDir+"\nquota: {project_ids: 150000-150099}\n")
	repaired(t, r) // what others left is not counted
	stays := cgroupfs.start(t, r, "sleep 1000")
	lost := cgroupfs.start(t, r, "sleep 1000")
	lost.write("cgroup.kill", "1")
	harness.Eventually(t, "the cgroup is gone", func() bool { return os.Remove(lost.dir) == nil })
	check(t, os.RemoveAll(filepath.Join(r.Root, lost.id)))

	// XFS lets go of removed inodes a moment later; until then they count.
	got := repaired(t, r)
	if !strings.HasPrefix(got, "1 projects held") || !strings.Contains(got, "1 given back") && !strings.Contains(got, "1 retired") {
		t.Errorf("the repair says %q, want one project held, and one given back or retired", got)
	}
	harness.Eventually(t, "a repair leaves none retired", func() bool {
		return strings.Contains(repaired(t, r), "1 projects held") && strings.Contains(repaired(t, r), " 0 retired")
	})
	if a := stays.attest(); !a.OK {
		t.Errorf("the container that stays: %+v", a)
	}
	r.Must(t, "delete", "--force", stays.id)
	harness.Eventually(t, "there is nothing to repair", func() bool {
		return strings.HasPrefix(repaired(t, r), "0 projects held, 0 given back, 0 retired")
	})
}

// repaired is what a repair says of the quota mount.
func repaired(t *testing.T, r *harness.Runtime) string {
	t.Helper()
	var report struct {
		Repairs []struct{ What, Name, Did, Error string }
	}
	check(t, json.Unmarshal([]byte(r.Must(t, "check", "--repair", "--json").Stdout), &report))
	for _, x := range report.Repairs {
		if x.What == "quota" && x.Name == quotaDir && x.Error == "" {
			return x.Did
		}
	}
	t.Fatalf("got %+v, want a line of %s", report, quotaDir)
	return ""
}
