package proxy

import (
	"context"
	"net"
	"net/netip"

	"github.com/sage-sandbox/sage/egress"
)

// names is the stub resolver as the rest of the proxy sees it. dnsstub.go has
// the one that there is; it counts and writes what it was asked to a recorder.
type names interface {
	// Name is the host for which a synthetic address was given out.
	Name(addr netip.Addr) (host egress.Host, ok bool)
	// ServePacket answers questions until ctx ends or the socket is closed.
	ServePacket(ctx context.Context, socket net.PacketConn)
	// ServeStream answers the questions of one TCP connection, and returns when
	// that ends, or ctx does. The caller closes it.
	ServeStream(ctx context.Context, conn net.Conn)
}

// recorder is where the stub resolver puts its counters and audit lines;
// container and dials are filled in by it.
type recorder interface {
	add(counter egress.Counter, n int64)
	write(line egress.AuditLine)
}

var _ recorder = (*record)(nil)
