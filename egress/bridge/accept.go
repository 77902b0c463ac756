package bridge

import (
	"errors"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/sys"
)

// unpopulated reads the line "populated 0" of cgroup.events.
func unpopulated(text string) bool {
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "populated" {
			return value == "0"
		}
	}
	return false
}

// accept takes what a listener has, some at a time.
func (b *bridge) accept(listener int, kind egress.Kind) {
	for range batch {
		if !b.resume.IsZero() {
			return
		}
		fd, from, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
			b.arrived(&connection{fd: fd, arrival: egress.Arrival{Kind: kind}}, addrPort(from))
		case errors.Is(err, unix.EAGAIN):
			return
		case errors.Is(err, unix.ECONNABORTED), errors.Is(err, unix.EINTR):
		default:
			// EMFILE, ENFILE, ENOMEM, ENOBUFS and what accept(2) may find more: it
			// can be over in a moment, and must not be asked for in a loop.
			b.rest(time.Now().Add(pause))
			return
		}
	}
}

func (b *bridge) arrived(c *connection, from netip.AddrPort) {
	if c.arrival.Kind != egress.KindUnix {
		own, err := unix.Getsockname(c.fd)
		if err != nil {
			_ = unix.Close(c.fd)
			return
		}
		c.arrival.Local = addrPort(own)
		if !b.isOurs(from, c.arrival.Local) {
			_ = unix.Close(c.fd)
			return
		}
	}
	b.handOver(c)
}

// isOurs asks whose socket the client's is: other containers may be in the
// namespace. In any doubt it is nobody's.
func (b *bridge) isOurs(client, local netip.AddrPort) bool {
	if b.config.PeerCgroup == 0 {
		return true
	}
	id, err := sys.SocketCgroup(b.config.Diag, client, local)
	return err == nil && id == b.config.PeerCgroup
}

// handOver gives a connection to the proxy. One that the proxy has no room for
// is held, and nothing more accepted, until it has, or has not for too long.
func (b *bridge) handOver(c *connection) {
	if b.proxy == none {
		b.refuse(c)
		return
	}
	err := b.send(c)
	switch {
	case err == nil:
		b.fullSince = time.Time{}
		_ = unix.Close(c.fd)
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ETOOMANYREFS):
		b.wait(c, time.Now())
	default:
		b.dropProxy()
		b.refuse(c)
	}
}

func (b *bridge) send(c *connection) error {
	message, err := c.arrival.AppendBinary(b.message[:0])
	if err != nil {
		return err
	}
	return sys.SendFD(b.proxy, message, c.fd)
}

func (b *bridge) wait(c *connection, now time.Time) {
	if b.fullSince.IsZero() {
		b.fullSince = now
	}
	if now.Sub(b.fullSince) > patience {
		b.refuse(c)
		return
	}
	b.held = c
	b.awaitRoom(proxyRoom)
	b.rest(now.Add(pause))
}

// addrPort is the zero one for an address that is not of the internet.
func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}
