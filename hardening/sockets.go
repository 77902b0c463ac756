package hardening

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/hardening/seccomp"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// Sockets is what a container's programs may open, and why not more.
type Sockets struct {
	Allowed seccomp.Network
	Listen  seccomp.Listen
	// Own says that the network namespace is the container's, Host that it is the
	// host's; neither is another container's.
	Own  bool
	Host bool
	// NoInet and NoUnix say why the internet families and AF_UNIX are closed, ""
	// if they are open.
	NoInet string
	NoUnix string
}

// sockets reads the spec as hardened.
func (h *hardener) sockets() Sockets {
	net := holds(h.spec, specs.NetworkNamespace)
	s := Sockets{Listen: listen(h.policy.Network.Listen), Own: net == own, Host: net == hosts}
	s.NoInet = noInet(h.policy.Network, net)
	s.NoUnix = h.noUnix(net)
	switch {
	case s.NoInet == "" && s.NoUnix == "":
		s.Allowed = seccomp.NetworkInetUnix
	case s.NoInet == "":
		s.Allowed = seccomp.NetworkInet
	case s.NoUnix == "":
		s.Allowed = seccomp.NetworkUnix
	}
	return s
}

// noInet closes the internet families where they could lead nowhere. In the
// modes with a proxy a guard stands before all but that.
func noInet(n spec.Network, net owned) string {
	closed := noTraffic(n.Mode)
	switch {
	case net == hosts && closed:
		return fmt.Sprintf("the network namespace is the host's, and the mode is %s", n.Mode)
	case net == joined && closed:
		return "the network namespace is shared, and the mode is none"
	case closed && listen(n.Listen) == seccomp.ListenDeny:
		return "the mode is none, and listening is denied"
	}
	return ""
}

// noTraffic takes every mode that is none of the named ones for the strictest.
func noTraffic(m spec.NetworkMode) bool {
	switch m {
	case spec.NetworkNone:
	case spec.NetworkAllowlist, spec.NetworkProxy, spec.NetworkUnrestricted:
		return false
	}
	return true
}

// noUnix closes AF_UNIX where a socket could lead out of the container: by an
// abstract name, through a directory that something outside can write to, or
// through /proc/PID/root of another container's process. A read-only mount
// does not keep a program from connecting.
func (h *hardener) noUnix(net owned) string {
	switch {
	case !h.policy.Network.UnixSockets:
		return "the policy does not have network.unix_sockets"
	case net != own:
		return "the network namespace is not the container's own"
	case holds(h.spec, specs.PIDNamespace) != own:
		return "the pid namespace is not the container's own"
	}
	return h.outside
}

// layer2 chooses the variant of sage's own filter.
func layer2(s Sockets, p spec.Policy, f Facts) (seccomp.Program, error) {
	arch, err := seccomp.ParseArch(f.Arch)
	if err != nil {
		return seccomp.Program{}, errcode.Wrap(errcode.ArchUnsupported, "choose the seccomp filter", err)
	}
	program, err := seccomp.Build(seccomp.Policy{
		Arch: arch, Network: s.Allowed, Listen: s.Listen,
		AllowPtrace: p.Process.AllowPtrace, AllowNoRandomize: p.Process.AllowNoRandomize,
	})
	return program, errcode.Wrap(errcode.ArchUnsupported, "build the seccomp filter", err)
}

// listen takes every value that is none of the named ones for the strictest.
func listen(l spec.Listen) seccomp.Listen {
	switch l {
	case spec.ListenDeny:
	case spec.ListenLoopback:
		return seccomp.ListenLoopback
	case spec.ListenAny:
		return seccomp.ListenAny
	}
	return seccomp.ListenDeny
}
