package egress

import (
	"net/netip"
	"slices"
)

var (
	nat64WellKnown = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixToFour      = netip.MustParsePrefix("2002::/16")    // RFC 3056
)

// unwrap lists an address and, where it stands for an IPv4 one, that one last.
// The zone of a link-local address says how to get there, not where, and the
// comparisons with prefixes want none.
func unwrap(addr netip.Addr, nat64 []netip.Prefix) []netip.Addr {
	chain := []netip.Addr{addr.WithZone("")}
	for {
		inner, ok := embedded(chain[len(chain)-1], nat64)
		if !ok {
			return chain
		}
		chain = append(chain, inner)
	}
}

// embedded is the IPv4 address that an IPv6 one leads to: mapped (a socket of
// the family takes it for IPv4), translated by NAT64 under the well-known or the
// network's own prefix, or tunnelled by 6to4. IPv4-compatible addresses and
// Teredo lead there too, but are refused as a whole: both are long gone.
func embedded(addr netip.Addr, nat64 []netip.Prefix) (netip.Addr, bool) {
	if addr.Is4() || !addr.IsValid() {
		return netip.Addr{}, false
	}
	if addr.Is4In6() {
		return addr.Unmap(), true
	}
	for _, p := range nat64 {
		if p.Contains(addr) {
			return translated(addr, p.Bits()), true
		}
	}
	ip := addr.As16()
	switch {
	case nat64WellKnown.Contains(addr):
		return translated(addr, nat64WellKnown.Bits()), true
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(ip[2:6])), true
	}
	return netip.Addr{}, false
}

// translated takes the IPv4 address out from behind a prefix of the lengths
// that RFC 6052 section 2.2 has, 32 to 96; byte 8 is left out, since it is
// always zero. A longer prefix leaves no room and gives 0.0.0.0, which nobody
// reaches.
func translated(addr netip.Addr, bits int) netip.Addr {
	ip := addr.As16()
	tail := slices.Clone(ip[min(bits/8, len(ip)):])
	if u := 8 - bits/8; u >= 0 && u < 4 {
		tail = slices.Delete(tail, u, u+1)
	}
	if len(tail) < 4 {
		return netip.IPv4Unspecified()
	}
	return netip.AddrFrom4([4]byte(tail[:4]))
}
