package egress

import (
	"net/netip"
	"slices"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// Env is what an address is judged by that lies outside the policy: facts of
// the machine and the network, and what the host's file says of them.
type Env struct {
	HostAddrs []netip.Addr   // of the host's own interfaces, as of now
	Reachable []netip.Prefix // the host file's exceptions
	NAT64     []netip.Prefix // by which the network that is dialled from translates to IPv4
}

// CheckAddr says whether an address that a host leads to may be dialled. It
// comes after [Decide] has allowed the host.
//
// A public address may. One of a private network may where the policy does not
// deny these. Nothing else may, and never the host's own addresses (on which
// services listen that trust their machine), unless the host's file lists it as
// reachable; and there is no list for multicast and the unspecified address.
func CheckAddr(p Policy, h Host, addr netip.Addr, env Env) Decision {
	if p.Mode == ModeUnrestricted {
		return Decision{Allow: true}
	}
	chain := unwrap(addr, env.NAT64)
	if !addr.IsValid() || h.IsIP() && HostOf(addr) != h {
		return addressDenied("", "the address is not the one that was asked for")
	}
	// A rule that denies an address on one port denies it here on all: what it
	// is wanted for is not known any more.
	for _, r := range p.Deny {
		if r.IsIP() && slices.ContainsFunc(chain, func(a netip.Addr) bool { return r.Match(HostOf(a)) }) {
			return addressDenied(r.String(), "the policy denies this address")
		}
	}
	return p.checkClass(chain, env)
}

func addressDenied(rule, reason string) Decision {
	return denied(errcode.EgressAddressDenied, rule, reason)
}

func (p Policy) checkClass(chain []netip.Addr, env Env) Decision {
	class := lookup(chain[len(chain)-1])
	own := slices.ContainsFunc(chain, func(a netip.Addr) bool { return isOwn(a, env.HostAddrs) })
	switch {
	case class == ClassMulticast || class == ClassUnspecified:
		return addressDenied("", "the address is "+class.String())
	case reachable(chain[0], env.Reachable):
		return Decision{Allow: true}
	case own:
		return addressDenied("", "the address is the host's own")
	case p.opens(class):
		return Decision{Allow: true}
	}
	return addressDenied("", "the address is "+class.String())
}

func isOwn(addr netip.Addr, own []netip.Addr) bool {
	return slices.ContainsFunc(own, func(a netip.Addr) bool { return a.Unmap().WithZone("") == addr })
}

// reachable looks at the address as it is dialled, but for its IPv6 form of a
// socket: a listed private network is not one behind somebody's translator.
func reachable(addr netip.Addr, list []netip.Prefix) bool {
	addr = addr.Unmap()
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// opens: our own synthetic addresses lie in the benchmark range, and a
// connection to one would come back in by the transparent path.
func (p Policy) opens(c Class) bool {
	return c == ClassPublic || !p.DenyPrivate && (c == ClassPrivate || c == ClassBenchmark && !p.Transparent)
}
