package hardening

import (
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// user keeps the root of the host out of the container. Root of a user
// namespace of the container's own is a user like any other outside it.
func (h *processor) user() error {
	u := &h.proc.User
	h.replaceRoot(u)
	rootUser := hostRoot(u.UID, h.facts.UIDMappings)
	rootGroup := hostRoot(u.GID, h.facts.GIDMappings)
	extra := slices.IndexFunc(u.AdditionalGids, func(g uint32) bool { return hostRoot(g, h.facts.GIDMappings) })
	const want = "as process.require_non_root says; set linux_execution_uid and linux_execution_gid to replace it"
	switch {
	case h.policy.Process.RequireNonRoot && rootUser:
		return denied("process.user.uid", "saw root, want another user, "+want)
	case h.policy.Process.RequireNonRoot && rootGroup:
		return denied("process.user.gid", "saw root's group, want another, "+want)
	case extra >= 0 && (h.policy.Process.RequireNonRoot || !rootGroup):
		// Engines list the primary group here too, which adds nothing to it.
		return denied(fmt.Sprintf("process.user.additionalGids[%d]", extra), "saw root's group, want it left away")
	}
	return nil
}

// replaceRoot also takes away the groups that were looked up for root.
func (h *processor) replaceRoot(u *specs.User) {
	uid := h.replaceID("process.user.uid", &u.UID, h.policy.Process.ExecutionUID, h.facts.UIDMappings)
	gid := h.replaceID("process.user.gid", &u.GID, h.policy.Process.ExecutionGID, h.facts.GIDMappings)
	if (uid || gid) && len(u.AdditionalGids) > 0 {
		h.drop("process.user.additionalGids", fmt.Sprint(u.AdditionalGids), "groups of the user that was replaced")
		u.AdditionalGids = nil
	}
}

func (h *processor) replaceID(field string, id, with *uint32, mapped []specs.LinuxIDMapping) bool {
	if with == nil || !hostRoot(*id, mapped) {
		return false
	}
	h.tighten(field, fmt.Sprint(*id), fmt.Sprint(*with), "the host's file names another user in place of root")
	*id = *with
	return true
}

// hostRoot tells whether an id of the container is 0 on the host.
func hostRoot(id uint32, mapped []specs.LinuxIDMapping) bool {
	host, ok := hostID(id, mapped)
	return ok && host == 0
}

// hostID is what an id of the container is outside of it; an id that the user
// namespace does not map has no meaning there.
func hostID(id uint32, mapped []specs.LinuxIDMapping) (uint32, bool) {
	if len(mapped) == 0 {
		return id, true
	}
	for _, m := range mapped {
		if id >= m.ContainerID && id-m.ContainerID < m.Size {
			return m.HostID + (id - m.ContainerID), true
		}
	}
	return 0, false
}
