package hardening

import (
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// owned says what the container has of one type of namespace.
type owned uint8

const (
	hosts owned = iota // none of its own: the host's
	own
	joined // another container's, by path
)

// kinds are the types as the kernel names them, below /proc/PID/ns.
var kinds = map[specs.LinuxNamespaceType]string{
	specs.MountNamespace: "mnt", specs.PIDNamespace: "pid", specs.NetworkNamespace: "net",
	specs.IPCNamespace: "ipc", specs.UTSNamespace: "uts", specs.CgroupNamespace: "cgroup",
	specs.UserNamespace: "user", specs.TimeNamespace: "time",
}

// holds tells what the bundle has of a type, as the spec says now.
func holds(s *specs.Spec, t specs.LinuxNamespaceType) owned {
	if s.Linux == nil {
		return hosts
	}
	for _, ns := range s.Linux.Namespaces {
		if ns.Type == t && ns.Path != "" {
			return joined
		}
		if ns.Type == t {
			return own
		}
	}
	return hosts
}

func (h *hardener) namespaces() error {
	seen := map[specs.LinuxNamespaceType]bool{}
	for i, ns := range h.spec.Linux.Namespaces {
		field := fmt.Sprintf("linux.namespaces[%d]", i)
		switch {
		case kinds[ns.Type] == "":
			return invalid(field, "saw type %.40q, want one of the runtime specification", ns.Type)
		case seen[ns.Type]:
			return invalid(field, "saw %s twice", ns.Type)
		}
		seen[ns.Type] = true
		if ns.Path != "" {
			if err := h.mayJoin(field, ns.Type); err != nil {
				return err
			}
		}
	}
	if err := h.required(); err != nil {
		return err
	}
	h.addNamespaces()
	return h.userNamespace()
}

// mayJoin judges what the path led to when the runtime looked, not the path.
func (h *hardener) mayJoin(field string, t specs.LinuxNamespaceType) error {
	if !slices.Contains([]specs.LinuxNamespaceType{
		specs.NetworkNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.PIDNamespace,
	}, t) {
		return denied(field, "saw a path for the %s namespace, want one of the container's own", t)
	}
	facts, ok := h.facts.Namespaces[t]
	switch {
	case !slices.Contains(h.policy.Files.SharedNamespaces, string(t)):
		return denied(field, "saw a path for the %s namespace, want one of the container's own: add %s to shared_namespaces in the host's file to let bundles share it", t, t)
	case !ok:
		return denied(field, "nothing is known of the %s namespace at the path", t)
	case facts.Host:
		return denied(field, "saw the %s namespace of the host, want the container's own or another container's", t)
	case facts.Kind != kinds[t]:
		return denied(field, "saw a namespace of type %.20q, want %s", facts.Kind, kinds[t])
	}
	return nil
}

// required refuses what an engine leaves out when it is told to use the host's.
func (h *hardener) required() error {
	const field = "linux.namespaces"
	hostNet := holds(h.spec, specs.NetworkNamespace) == hosts
	if hostNet && !h.policy.Network.HostNetwork {
		return denied(field, "saw no network namespace, want one: set limits.network.host_network in the host's file to let bundles use the host's")
	}
	for _, t := range []specs.LinuxNamespaceType{
		specs.MountNamespace, specs.PIDNamespace, specs.IPCNamespace, specs.UTSNamespace,
	} {
		// Kubernetes leaves the host's name to a pod on the host's network.
		named := t == specs.UTSNamespace && hostNet
		if holds(h.spec, t) == hosts && !named {
			return denied(field, "saw no %s namespace, want one: the host's is not for containers", t)
		}
	}
	return nil
}

// addNamespaces gives what costs nothing. Engines on cgroup v1 leave the cgroup
// namespace out by default, so its absence is no wish.
func (h *hardener) addNamespaces() {
	for _, t := range []specs.LinuxNamespaceType{specs.UTSNamespace, specs.CgroupNamespace} {
		if holds(h.spec, t) == hosts {
			h.spec.Linux.Namespaces = append(h.spec.Linux.Namespaces, specs.LinuxNamespace{Type: t})
			h.add("linux.namespaces", string(t), "the host's is not for containers")
		}
	}
	if holds(h.spec, specs.UTSNamespace) == joined {
		h.dropText("hostname", &h.spec.Hostname, "the namespace is another container's")
		h.dropText("domainname", &h.spec.Domainname, "the namespace is another container's")
	}
}

func (h *hardener) dropText(field string, text *string, why string) {
	if *text != "" {
		h.drop(field, *text, why)
		*text = ""
	}
}

// userNamespace refuses mappings without the namespace that they are for, as
// libcontainer does, since the rules about root believe them.
func (h *hardener) userNamespace() error {
	l := h.spec.Linux
	if holds(h.spec, specs.UserNamespace) == hosts && len(l.UIDMappings)+len(l.GIDMappings) > 0 {
		return invalid("linux.uidMappings", "want none without a user namespace")
	}
	return nil
}
