package proxy

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// lookup asks nameservers for the addresses of a name. net.Resolver would do,
// but it opens /etc/resolv.conf, /etc/hosts and /etc/nsswitch.conf on the way,
// and a process that opens a file is ended by its filter; what it found there
// would not be wanted either.
type lookup struct {
	servers []netip.AddrPort
}

const (
	// askTime is how long one nameserver has for one answer, and askRounds how
	// often each is asked: what resolv.conf(5) has, but half the time.
	askTime   = 2500 * time.Millisecond
	askRounds = 2
	// secondFamily is how long the addresses of one family wait for those of the
	// other: nameservers exist that never answer for AAAA. RFC 8305 section 3.
	secondFamily = 300 * time.Millisecond
)

var (
	errNoSuchHost = errors.New("the name has no address")
	errNoServer   = errors.New("no nameserver is configured")
	errAnswer     = errors.New("nameserver gave no usable answer")
)

type answer struct {
	addrs []netip.Addr
	err   error
}

// host gives the addresses of a name, in the order in which they came. The name
// has no dot at its end; it is asked for with one, so that no search domain comes
// into it.
//
// The first nameserver is asked for both families on one socket, as nearly all
// lookups then end. Where that does not give two answers the families go round
// the nameservers each for itself, the first one last.
func (l *lookup) host(ctx context.Context, name string) ([]netip.Addr, error) {
	if len(l.servers) == 0 {
		return nil, errNoServer
	}
	if four, six, ok := askBoth(ctx, l.servers[0], name); ok {
		return join(four, six)
	}
	servers := append(slices.Clone(l.servers[1:]), l.servers[0])
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, 2)
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
		go func() {
			addrs, err := askAny(ctx, servers, name, kind)
			answers <- answer{addrs, err}
		}()
	}
	first := <-answers
	var patience <-chan time.Time
	if len(first.addrs) > 0 {
		patience = time.After(secondFamily)
	}
	select {
	case second := <-answers:
		return join(first, second)
	case <-patience:
		return first.addrs, nil
	}
}

func join(a, b answer) ([]netip.Addr, error) {
	if addrs := append(a.addrs, b.addrs...); len(addrs) > 0 {
		return addrs, nil
	}
	// "no such host" is an answer, the others are the lack of one.
	if a.err != nil && !errors.Is(a.err, errNoSuchHost) {
		return nil, a.err
	}
	if b.err != nil {
		return nil, b.err
	}
	return nil, errNoSuchHost
}

// ask asks for one family.
func (l *lookup) ask(ctx context.Context, name string, kind dnsmessage.Type) ([]netip.Addr, error) {
	return askAny(ctx, l.servers, name, kind)
}

// askAny goes round the nameservers until one answers.
func askAny(ctx context.Context, servers []netip.AddrPort, name string, kind dnsmessage.Type) ([]netip.Addr, error) {
	last := errNoServer
	for range askRounds {
		for _, server := range servers {
			addrs, err := askServer(ctx, server, name, kind)
			if err == nil || errors.Is(err, errNoSuchHost) {
				return addrs, err
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			last = err
		}
	}
	return nil, last
}
