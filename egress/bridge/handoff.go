package bridge

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/sys"
)

// proxyQueue, in bytes, is room for some twenty arrivals; the kernel doubles it
// and counts about 800 for each.
const proxyQueue = 8 << 10

// proxyEvents tell of a proxy's end, and proxyRoom besides that it has taken
// something.
const (
	proxyEvents = unix.EPOLLIN | unix.EPOLLRDHUP
	proxyRoom   = proxyEvents | unix.EPOLLOUT
)

// takeProxy accepts the connection that a proxy was given the other end of, and
// greets it. While there is a proxy there can be no other.
func (b *bridge) takeProxy() {
	fd, _, err := unix.Accept4(b.config.Control, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return
	}
	if b.proxy != none || !isRuntimes(fd) {
		_ = unix.Close(fd)
		return
	}
	// Few on their way: what a proxy has not taken stays in the listeners' backlogs.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, proxyQueue)
	if sys.SendFD(fd, []byte(egress.Greeting), b.config.DNS) != nil || b.watch(fd, proxyEvents) != nil {
		_ = unix.Close(fd)
		return
	}
	b.proxy, b.fullSince = fd, time.Time{}
}

// isRuntimes asks who connected: sage-runtime is root.
func isRuntimes(fd int) bool {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && peer.Uid == 0
}

func (b *bridge) dropProxy() {
	if b.proxy != none {
		_ = unix.Close(b.proxy)
	}
	b.proxy, b.fullSince = none, time.Time{}
}

// proxyReady is for an event of the proxy's connection.
func (b *bridge) proxyReady(events uint32) {
	if events&^unix.EPOLLOUT != 0 {
		b.dropProxy() // a proxy sends nothing: it has ended
	}
	b.goOn()
}

// awaitRoom asks to be told when the proxy has taken something, or no more.
func (b *bridge) awaitRoom(events uint32) {
	if b.proxy != none {
		event := unix.EpollEvent{Events: events, Fd: int32(b.proxy)}
		_ = unix.EpollCtl(b.epoll, unix.EPOLL_CTL_MOD, b.proxy, &event)
	}
}
