package runtime

import "github.com/sage-sandbox/sage/internal/state"

// DiskSummary says what would hold a container to its disk limit.
type DiskSummary struct {
	// NoQuota says why the container would get no project, "" where it would.
	NoQuota string `json:"no_quota,omitempty"`
	Mount   string `json:"mount,omitempty"` // of XFS, with the projects
	// Bytes and Inodes are the project's limit, what the workspaces take away from
	// it taken off.
	Bytes  uint64 `json:"bytes,omitempty"`
	Inodes uint64 `json:"inodes,omitempty"`
	// Places are the directories in the container that would count for it, and
	// Root is how what is written to the root file system would.
	Places []string `json:"places,omitempty"`
	Root   string   `json:"root,omitempty"`
	// Workspaces count for projects of the administrator's.
	Workspaces []state.Workspace `json:"workspaces,omitempty"`
}

// diskSummary is the plan of [Launch.planDisk]. The project's id is not in it: it
// is chosen when the container is made.
func (a *admission) diskSummary() *DiskSummary {
	if a.disk == nil {
		return &DiskSummary{NoQuota: a.noQuota()}
	}
	d := a.disk
	s := &DiskSummary{Mount: d.saved.Mount, Workspaces: d.saved.Workspaces}
	switch {
	case isPause(a.result.Spec):
		s.NoQuota = noQuotaPause
	case d.request.Limit.Bytes < leastProject:
		s.NoQuota = "the projects of its workspaces take all of the limit; its root file system is read-only, and the rest is in memory"
	case !d.managed:
		s.NoQuota = "its root file system is read-only, and neither /tmp nor /dev/shm is a tmpfs that can be written"
	default:
		s.Bytes, s.Inodes, s.Places = d.request.Limit.Bytes, d.request.Limit.Inodes, d.saved.Places
		s.Root = a.rootSummary()
	}
	return s
}

const noQuotaPause = "it is a pod's sandbox, and its root file system is read-only"

func (a *admission) noQuota() string {
	switch r := a.record.Policy.Resources; {
	case r.RequireHardLimits: // a plan is made but for these
		return noQuotaPause
	case r.DiskBytes <= 0:
		return "the policy limits no disk"
	}
	return "resources.require_hard_limits is false: what is written on disks of the host is measured from time to time, and over the limit the container is ended"
}

func (a *admission) rootSummary() string {
	switch {
	case a.result.Spec.Root.Readonly:
		return "read-only"
	case a.disk.fresh:
		return "an overlay of sage's own, on the quota mount"
	}
	return "the engine's overlay, whose upper and work directories are tagged"
}
