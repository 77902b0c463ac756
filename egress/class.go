package egress

import (
	"fmt"
	"net/netip"
)

// Class is what an address is, as far as a container may care.
type Class uint8

// The classes. Only ClassPublic is reached without a word from the host.
const (
	ClassReserved  Class = iota // for documents, protocols, tunnels, the future
	ClassPublic                 // a host of the Internet
	ClassPrivate                // of a private network, or a carrier's
	ClassBenchmark              // 198.18.0.0/15, which fake-IP resolvers take, ours too
	ClassLoopback
	ClassLinkLocal
	ClassMetadata    // of a cloud, which gives credentials to who asks
	ClassMulticast   // to many
	ClassUnspecified // which the kernel takes for the loopback
)

var classNames = [...]string{
	"reserved", "public", "private", "benchmark", "loopback", "link-local", "metadata", "multicast", "unspecified",
}

// String is the class as an audit line has it.
func (c Class) String() string {
	if int(c) >= len(classNames) {
		return fmt.Sprintf("class %d", uint8(c))
	}
	return classNames[c]
}

// block is one row of the table, in use.
type block struct {
	prefix netip.Prefix
	class  Class
}

// blocks are the IANA special-purpose registries of both families (2026), all
// of them, with multicast, the reserved rest and what clouds give credentials
// by. The longest prefix decides. What the registries call globally reachable
// inside a block that is not stands in rows of its own, but for the anycast
// addresses of 192.0.0.0/24 and 2001:1::/32: no server has these.
var blocks = parsed([]row{
	// IPv4: what no row below names is public.
	{"0.0.0.0/0", ClassPublic},
	{"0.0.0.0/8", ClassReserved},
	{"0.0.0.0/32", ClassUnspecified}, // RFC 791: this network
	{"10.0.0.0/8", ClassPrivate},
	{"172.16.0.0/12", ClassPrivate},
	{"192.168.0.0/16", ClassPrivate}, // RFC 1918
	{"100.64.0.0/10", ClassPrivate},  // RFC 6598: carrier-grade NAT
	{"127.0.0.0/8", ClassLoopback},
	{"169.254.0.0/16", ClassLinkLocal},
	{"192.0.0.0/24", ClassReserved}, // RFC 6890: IETF protocols, the dummy address 192.0.0.8 too
	{"192.0.2.0/24", ClassReserved},
	{"198.51.100.0/24", ClassReserved},
	{"203.0.113.0/24", ClassReserved}, // RFC 5737
	{"192.88.99.0/24", ClassReserved}, // RFC 7526: 6to4 relays, deprecated
	{"198.18.0.0/15", ClassBenchmark}, // RFC 2544
	{"224.0.0.0/4", ClassMulticast},
	{"240.0.0.0/4", ClassReserved}, // RFC 1112, the broadcast address too
	// Globally reachable by the registry: AS112 and AMT.
	{"192.31.196.0/24", ClassPublic},
	{"192.175.48.0/24", ClassPublic},
	{"192.52.193.0/24", ClassPublic},

	// IPv6: what no row below names is not handed out.
	{"::/0", ClassReserved},
	{"2000::/3", ClassPublic},
	{"::/128", ClassUnspecified},
	{"::1/128", ClassLoopback},
	{"2001::/23", ClassReserved}, // RFC 2928: IETF protocols, Teredo and ORCHID among them
	{"2001:3::/32", ClassPublic},
	{"2001:4:112::/48", ClassPublic}, // AMT, AS112
	{"2001:30::/28", ClassPublic},    // RFC 9374: drone identity tags
	{"2001:db8::/32", ClassReserved},
	{"3fff::/20", ClassReserved},      // RFC 3849, RFC 9637: documents
	{"64:ff9b:1::/48", ClassReserved}, // RFC 8215: translation inside a network
	{"100::/64", ClassReserved},
	{"100:0:0:1::/64", ClassReserved}, // RFC 6666, RFC 9780
	{"5f00::/16", ClassReserved},      // RFC 9602: segment routing
	{"fc00::/7", ClassPrivate},
	{"fec0::/10", ClassPrivate}, // RFC 4193, RFC 3879: unique and site local
	{"fe80::/10", ClassLinkLocal},
	{"ff00::/8", ClassMulticast},

	// Metadata. AWS, Google, Azure, DigitalOcean and others; AWS tasks and pods;
	// Alibaba; Azure's host; Oracle before 2020; Scaleway.
	{"169.254.169.254/32", ClassMetadata},
	{"169.254.170.2/32", ClassMetadata},
	{"169.254.170.23/32", ClassMetadata},
	{"100.100.100.200/32", ClassMetadata},
	{"168.63.129.16/32", ClassMetadata},
	{"192.0.0.192/32", ClassMetadata},
	{"169.254.42.42/32", ClassMetadata},
	{"fd00:42::42/128", ClassMetadata},
	{"fd00:ec2::254/128", ClassMetadata},
	{"fd00:ec2::23/128", ClassMetadata},
	{"fd20:ce::254/128", ClassMetadata},
	{"fe80::a9fe:a9fe/128", ClassMetadata},
})

// row is a block as it is written.
type row struct {
	prefix string
	class  Class
}

// parsed panics on a mistake in the table: it is one of the program.
func parsed(list []row) []block {
	out := make([]block, len(list))
	for i, r := range list {
		out[i] = block{netip.MustParsePrefix(r.prefix), r.class}
	}
	return out
}

// Classify tells what an address is. One that stands for another, an IPv4
// address inside an IPv6 one, is what that is; see [embedded]. The prefixes are
// those by which the network translates to IPv4 (NAT64, RFC 6052): an address
// in one looks public and leads to whatever it embeds.
func Classify(addr netip.Addr, nat64 ...netip.Prefix) Class {
	chain := unwrap(addr, nat64)
	return lookup(chain[len(chain)-1])
}

func lookup(addr netip.Addr) Class {
	best := block{}
	for _, b := range blocks {
		if b.prefix.Contains(addr) && (!best.prefix.IsValid() || b.prefix.Bits() > best.prefix.Bits()) {
			best = b
		}
	}
	return best.class // ClassReserved for no address at all
}
