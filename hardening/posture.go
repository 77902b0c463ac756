package hardening

import (
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/hardening/seccomp"
	"github.com/sage-sandbox/sage/spec"
)

// Expected is what the kernel must show for a hardened process, while it waits
// to be started as well as after, in a container made from the hardened spec s.
// Filters that the runtime itself was started under come on top of its count.
// Ids are those that the host sees; the AppArmor profile is the name alone.
func Expected(proc *specs.Process, s *specs.Spec, p spec.Policy, filter seccomp.Program) spec.Posture {
	// The policy is asked once more, so that what it does not have is not
	// expected of the kernel even if it got past the hardening.
	caps := func(set []string) []string { return common(set, p.Process.Capabilities) }
	out := spec.Posture{
		NoNewPrivs: true, Seccomp: 2, Filters: 1 + bundleFilters(s), Layer2: filter.Digest(),
		OwnNamespaces: ownNamespaces(s), Rlimits: rlimits(proc.Rlimits), AppArmor: proc.ApparmorProfile,
	}
	if c := proc.Capabilities; c != nil {
		out.Bounding, out.Effective, out.Permitted = caps(c.Bounding), caps(c.Effective), caps(c.Permitted)
		out.Inheritable, out.Ambient = caps(c.Inheritable), caps(c.Ambient)
	}
	if proc.OOMScoreAdj != nil {
		out.OOMScoreAdj = *proc.OOMScoreAdj
	}
	out.UID, _ = hostID(proc.User.UID, s.Linux.UIDMappings)
	out.GID, _ = hostID(proc.User.GID, s.Linux.GIDMappings)
	for _, gid := range proc.User.AdditionalGids {
		host, _ := hostID(gid, s.Linux.GIDMappings)
		out.Groups = append(out.Groups, host)
	}
	slices.Sort(out.Groups)
	return out
}

// bundleFilters is 0 for a profile without content, which libcontainer takes
// for none.
func bundleFilters(s *specs.Spec) int {
	if l := s.Linux.Seccomp; l == nil || l.DefaultAction == "" && len(l.Syscalls) == 0 {
		return 0
	}
	return 1
}

// ownNamespaces counts those of another container in: they are not the host's.
// The time namespace is left out: Docker gives one to every container, and
// without offsets it isolates nothing.
func ownNamespaces(s *specs.Spec) []string {
	var out []string
	for _, ns := range s.Linux.Namespaces {
		if ns.Type != specs.TimeNamespace {
			out = append(out, kinds[ns.Type])
		}
	}
	slices.Sort(out)
	return out
}

func rlimits(limits []specs.POSIXRlimit) map[string]spec.Rlimit {
	out := map[string]spec.Rlimit{}
	for _, l := range limits {
		out[l.Type] = spec.Rlimit{Soft: l.Soft, Hard: l.Hard}
	}
	return out
}
