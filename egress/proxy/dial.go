package proxy

import (
	"context"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// stream is a connection of which one direction can end before the other.
type stream interface {
	net.Conn
	CloseWrite() error
}

// origin is the other end of a connection that was allowed.
type origin struct {
	stream
	addr  netip.AddrPort // that was dialled, or asked of the upstream proxy
	early []byte         // what came from it while it was being reached
}

const (
	// nextTry is how long one address has before the next is tried beside it,
	// RFC 8305 section 5; a failure starts the next at once.
	nextTry = 250 * time.Millisecond
	// maxTries bounds what one name with many addresses can make this process do.
	maxTries = 16
)

// interleave puts the families in turn, IPv6 first (RFC 8305 section 4), each
// in the order of the nameserver.
func interleave(addrs []netip.Addr) []netip.Addr {
	var six, four, mixed []netip.Addr
	for _, a := range addrs {
		if a.Is4() {
			four = append(four, a)
		} else {
			six = append(six, a)
		}
	}
	for len(six)+len(four) > 0 {
		if len(six) > 0 {
			mixed, six = append(mixed, six[0]), six[1:]
		}
		if len(four) > 0 {
			mixed, four = append(mixed, four[0]), four[1:]
		}
	}
	return mixed[:min(len(mixed), maxTries)]
}

type attempt struct {
	origin *origin
	err    error
}

// dialAny connects to the first of addrs that answers.
func dialAny(ctx context.Context, addrs []netip.Addr, port uint16) (*origin, error) {
	if len(addrs) == 1 {
		return dialOne(ctx, netip.AddrPortFrom(addrs[0], port))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the attempts that lost
	results := make(chan attempt, len(addrs))
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last error
	started, ended := 0, 0
	for ended < len(addrs) {
		select {
		case <-timer.C:
			if started < len(addrs) {
				go func(to netip.AddrPort) {
					o, err := dialOne(ctx, to)
					results <- attempt{o, err}
				}(netip.AddrPortFrom(addrs[started], port))
				started++
				timer.Reset(nextTry)
			}
		case r := <-results:
			if ended++; r.err == nil {
				go closeLosers(results, started-ended)
				return r.origin, nil
			}
			last = r.err
			timer.Reset(0)
		}
	}
	return nil, last
}

func dialOne(ctx context.Context, target netip.AddrPort) (*origin, error) {
	conn, err := connect(ctx, unix.SOCK_STREAM, target)
	if err != nil {
		return nil, err
	}
	return &origin{stream: conn, addr: target}, nil
}

// closeLosers closes connections that were made though another was first.
func closeLosers(results <-chan attempt, n int) {
	for range n {
		if r := <-results; r.err == nil {
			_ = r.origin.Close()
		}
	}
}
