//go:build kernel

package guard

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// everyProtocol is ETH_P_ALL in network order.
const everyProtocol = 0x0300

// capture is what arrives at the peer, from the time it was made.
type capture struct {
	mu      sync.Mutex
	packets [][]byte // from the IP header on
	fd      int
}

// listenAt reads packets of IP and of nothing else, and not what neighbours and
// routers say to each other.
func (w *wired) listenAt(t *testing.T) *capture {
	t.Helper()
	c := &capture{}
	w.peer.do(t, func() error {
		link, err := netlink.LinkByName("peer0")
		if err != nil {
			return err
		}
		c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, everyProtocol)
		if err != nil {
			return err
		}
		return first(
			unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: everyProtocol, Ifindex: link.Attrs().Index}),
			unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20_000}),
		)
	})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go c.read(stop, stopped)
	t.Cleanup(func() { close(stop); <-stopped; _ = unix.Close(c.fd) })
	return c
}

func (c *capture) read(stop, stopped chan struct{}) {
	defer close(stopped)
	buffer := make([]byte, 1<<16)
	for {
		select {
		case <-stop:
			return
		default:
		}
		n, from, err := unix.Recvfrom(c.fd, buffer, 0)
		ll, ok := from.(*unix.SockaddrLinklayer)
		if err != nil || !ok || ll.Pkttype == unix.PACKET_OUTGOING || !telling(buffer[:n]) {
			continue
		}
		c.mu.Lock()
		c.packets = append(c.packets, bytes.Clone(buffer[:n]))
		c.mu.Unlock()
	}
}

// telling leaves out ARP, and of ICMPv6 the words about neighbours, routers and
// groups that the kernel says of itself.
func telling(p []byte) bool {
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		return true
	case len(p) < 41 || p[0]>>4 != 6:
		return false
	}
	next, at := p[6], 40
	if next == 0 && len(p) > 48 { // router alert, before a report of groups
		next, at = p[40], 48
	}
	return next != unix.IPPROTO_ICMPV6 || !slices.Contains([]byte{133, 134, 135, 136, 143}, p[at])
}

// seen counts what holds all of words.
func (c *capture) seen(words ...[]byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, p := range c.packets {
		if !slices.ContainsFunc(words, func(w []byte) bool { return !bytes.Contains(p, w) }) {
			n++
		}
	}
	return n
}

// settle waits until what is on its way has arrived: a packet of the test's own,
// sent last from the container's end of the wire and outside of the cgroup.
func (c *capture) settle(t *testing.T, w *wired) {
	t.Helper()
	last := []byte("last of " + t.Name())
	w.container.do(t, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, last, 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte(parseIP(peer4).To4())})
	})
	eventually(t, "the last packet arrives", func() bool { return c.seen(last) > 0 })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.packets = slices.DeleteFunc(c.packets, func(p []byte) bool { return bytes.Contains(p, last) })
}
