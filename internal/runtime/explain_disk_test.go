package runtime

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/quota"
	"github.com/sage-sandbox/sage/quota/xfs"
	"github.com/sage-sandbox/sage/spec"
)

// TestDiskSummary: what policy says of the disk is what the plan has, or why
// there is none.
func TestDiskSummary(t *testing.T) {
	hard := spec.Resources{RequireHardLimits: true, DiskBytes: 8 << 20}
	workspaces := []state.Workspace{{Place: "/work", Project: 7, Bytes: 1 << 20, Inodes: 256}}
	plan := func(bytes uint64, managed, fresh bool, places ...string) *diskPlan {
		return &diskPlan{
			managed: managed, fresh: fresh, request: xfs.Request{Limit: quota.NewLimit(bytes, 4096)},
			saved: state.Disk{Mount: "/q", Places: places, Workspaces: workspaces},
		}
	}
	limited := func(root string, places ...string) DiskSummary {
		return DiskSummary{Mount: "/q", Bytes: 7 << 20, Inodes: 7 << 8, Places: places, Root: root, Workspaces: workspaces}
	}
	pause := map[string]string{"io.kubernetes.cri.container-type": "sandbox"}
	tests := map[string]struct {
		disk        *diskPlan
		resources   spec.Resources
		readonly    bool
		annotations map[string]string
		want        DiskSummary
		why         string // a part of NoQuota
	}{
		"soft":            {resources: spec.Resources{DiskBytes: 1}, why: "require_hard_limits is false"},
		"no limit":        {why: "limits no disk"},
		"pause":           {resources: hard, annotations: pause, why: "pod's sandbox"},
		"pause, mounts":   {disk: plan(8<<20, false, false), resources: hard, annotations: pause, want: DiskSummary{Mount: "/q", Workspaces: workspaces}, why: "pod's sandbox"},
		"all taken":       {disk: plan(0, false, false), resources: hard, readonly: true, want: DiskSummary{Mount: "/q", Workspaces: workspaces}, why: "take all of the limit"},
		"nothing writes":  {disk: plan(8<<20, false, false), resources: hard, readonly: true, want: DiskSummary{Mount: "/q", Workspaces: workspaces}, why: "neither /tmp nor /dev/shm"},
		"engine's":        {disk: plan(7<<20, true, false, "/", "/tmp"), resources: hard, want: limited("the engine's overlay, whose upper and work directories are tagged", "/", "/tmp")},
		"fresh":           {disk: plan(7<<20, true, true, "/"), resources: hard, want: limited("an overlay of sage's own, on the quota mount", "/")},
		"read-only, /tmp": {disk: plan(7<<20, true, false, "/tmp"), resources: hard, readonly: true, want: limited("read-only", "/tmp")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := &admission{disk: tt.disk}
			a.record.Policy.Resources = tt.resources
			a.result.Spec = &specs.Spec{Root: &specs.Root{Readonly: tt.readonly}, Annotations: tt.annotations}
			got := *a.diskSummary()
			if (got.NoQuota == "") != (tt.why == "") || !strings.Contains(got.NoQuota, tt.why) {
				t.Errorf("got %q, want %q", got.NoQuota, tt.why)
			}
			got.NoQuota = ""
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
