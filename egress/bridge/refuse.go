package bridge

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
)

// A socket that is closed with bytes unread is reset, and the reset can overtake
// the answer. So a client that was told something stays for a moment, while what
// it sends is thrown away.
const (
	maxParting  = 32
	partingTime = time.Second
	partingRead = 64 << 10 // bytes in all, at most
)

// parting is a client on its way out.
type parting struct {
	fd    int
	until time.Time
	read  int
}

const reason = "the container's network proxy is not running: there is no network\n"

// unavailable is what an HTTP client reads. Many show the first line alone.
var unavailable = fmt.Appendf(nil, "HTTP/1.1 502 Bad Gateway (%[1]s)\r\nX-Sage-Deny: %[1]s\r\nContent-Type: text/plain\r\nContent-Length: %[2]d\r\nConnection: close\r\n\r\n%[3]s",
	errcode.EgressUnavailable, len(reason), reason)

// refuse tells a client that there is no proxy, where it would understand that.
// The answer fits into the empty send buffer of a new connection.
func (b *bridge) refuse(c *connection) {
	if c.arrival.Kind != egress.KindProxy && c.arrival.Kind != egress.KindUnix {
		_ = unix.Close(c.fd)
		return
	}
	err := unix.Sendto(c.fd, unavailable, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
	if err != nil || unix.Shutdown(c.fd, unix.SHUT_WR) != nil || b.watch(c.fd, unix.EPOLLIN) != nil {
		_ = unix.Close(c.fd)
		return
	}
	if len(b.parting) == maxParting {
		b.leave(0)
	}
	b.parting = append(b.parting, parting{fd: c.fd, until: time.Now().Add(partingTime)})
}

// drain throws away what a parting client has sent, until it has ended or has
// sent enough.
func (b *bridge) drain(fd int) {
	for i := range b.parting {
		if p := &b.parting[i]; p.fd == fd {
			var bytes [4 << 10]byte
			n, _, err := unix.Recvfrom(fd, bytes[:], unix.MSG_DONTWAIT)
			p.read += max(n, 0)
			if n <= 0 && err != unix.EAGAIN || p.read > partingRead {
				b.leave(i)
			}
			return
		}
	}
}

// part closes those whose time is over. They are in the order of their times.
func (b *bridge) part(now time.Time) {
	for len(b.parting) > 0 && !now.Before(b.parting[0].until) {
		b.leave(0)
	}
}

func (b *bridge) nextParting() time.Time {
	if len(b.parting) == 0 {
		return time.Time{}
	}
	return b.parting[0].until
}

func (b *bridge) leave(i int) {
	_ = unix.Close(b.parting[i].fd)
	b.parting = append(b.parting[:i], b.parting[i+1:]...)
}
