package proxy

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// nat64 knows the prefixes by which the network that is dialled from reaches
// IPv4 in IPv6: behind one of them, a public IPv6 address can be a private IPv4
// one. The network says so in its answer for one name (RFC 7050), which is the
// only one that is ever asked for on our own account, and only once an IPv6
// address is to be dialled.
type nat64 struct {
	lookup *lookup
	mu     sync.Mutex
	known  bool
	list   []netip.Prefix
	again  time.Time // not to be asked before, after a failure
}

// nat64Time is how long the network has for its answer, and nat64Pause how long
// it is left in peace when it gave none.
const nat64Time, nat64Pause = 3 * time.Second, 30 * time.Second

var errNAT64 = errors.New("the network did not say by which prefix it reaches IPv4")

const nat64Name = "ipv4only.arpa"

// prefixes fails as long as the network does not answer: then an IPv6 address
// cannot be judged.
func (n *nat64) prefixes(ctx context.Context) ([]netip.Prefix, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known {
		return n.list, nil
	}
	if time.Now().Before(n.again) {
		return nil, errNAT64
	}
	ctx, cancel := context.WithTimeout(ctx, nat64Time)
	defer cancel()
	addrs, err := n.lookup.ask(ctx, nat64Name, dnsmessage.TypeAAAA)
	// Without a nameserver there are literal addresses only, from the host's file.
	if err != nil && !errors.Is(err, errNoSuchHost) && !errors.Is(err, errNoServer) {
		n.again = time.Now().Add(nat64Pause)
		return nil, errNAT64
	}
	n.known = true
	for _, addr := range addrs {
		n.list = append(n.list, nat64Prefixes(addr)...)
	}
	return n.list, nil
}

// nat64Prefixes finds where in addr one of the two IPv4 addresses of that name
// stands. For each length of prefix, RFC 6052 section 2.2 has one place, around
// byte 8, which is zero.
func nat64Prefixes(addr netip.Addr) (found []netip.Prefix) {
	b := addr.As16()
	for _, bits := range []int{32, 40, 48, 56, 64, 96} {
		var four []byte
		for i := bits / 8; len(four) < 4; i++ {
			if i != 8 || bits == 96 {
				four = append(four, b[i])
			}
		}
		if slices.Equal(four, []byte{192, 0, 0, 170}) || slices.Equal(four, []byte{192, 0, 0, 171}) {
			found = append(found, netip.PrefixFrom(addr, bits).Masked())
		}
	}
	return found
}
