package egress

import "net/netip"

// Synthetic is the range of addresses that stand for names on the transparent
// path. RFC 2544 keeps it for benchmarks, so nobody has a server there.
var Synthetic = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 0, 0}), 15)

// Resolver is where the stub resolver listens in a container with such a path;
// the address stands for no name.
var Resolver = netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, 0, 1}), 53)
