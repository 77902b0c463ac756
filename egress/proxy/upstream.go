package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
)

// upstream is the proxy through which everything goes in the mode proxy. What
// it refuses or cannot do fails; there is no way round it (S-086).
type upstream struct {
	egress.Upstream
	tls    *tls.Config // nil for http
	lookup *lookup
}

// maxUpstreamTries is how many addresses of an origin it is asked for.
const maxUpstreamTries = 3

func newUpstream(u egress.Upstream, roots []byte, l *lookup) (*upstream, error) {
	up := &upstream{Upstream: u, lookup: l}
	switch u.Scheme {
	case egress.SchemeHTTP:
		return up, nil
	case egress.SchemeHTTPS:
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(roots) {
			return nil, errors.New("upstream proxy: no certificate to verify it by; it is https")
		}
		up.tls = &tls.Config{ServerName: u.Host, RootCAs: pool, MinVersion: tls.VersionTLS12}
		return up, nil
	}
	return nil, errors.New("upstream proxy: saw an unknown scheme, want http or https")
}

// dial asks it for one checked address after the other, never for the name: it
// would resolve that a second time, and to what it likes.
func (u *upstream) dial(ctx context.Context, addrs []netip.Addr, port uint16) (o *origin, err error) {
	for _, addr := range addrs[:min(len(addrs), maxUpstreamTries)] {
		if o, err = u.connect(ctx, netip.AddrPortFrom(addr, port)); err == nil {
			return o, nil
		}
	}
	if errors.As(err, new(*refusal)) {
		return nil, err
	}
	return nil, failed(errcode.EgressUpstreamRefused, "asking the upstream proxy", err)
}

func (u *upstream) connect(ctx context.Context, target netip.AddrPort) (*origin, error) {
	conn, err := u.reach(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	early, err := askConnect(conn, target)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &origin{stream: conn, addr: target, early: early}, nil
}

// reach connects to the upstream proxy itself, whose address is not checked:
// the host's file names it, and it may well be a private one (S-067).
func (u *upstream) reach(ctx context.Context) (stream, error) {
	host, err := egress.ParseHost(u.Host)
	if err != nil {
		return nil, err
	}
	addrs := []netip.Addr{host.Addr()}
	if !host.IsIP() {
		if addrs, err = u.lookup.host(ctx, host.Name()); err != nil {
			return nil, err
		}
	}
	o, err := dialAny(ctx, interleave(addrs), u.Port)
	if err != nil {
		return nil, err
	}
	if u.tls == nil {
		return o.stream, nil
	}
	conn := tls.Client(o.stream, u.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = o.Close()
		return nil, err
	}
	return conn, nil
}

func askConnect(conn net.Conn, target netip.AddrPort) (early []byte, err error) {
	name := target.String()
	if _, err := conn.Write([]byte("CONNECT " + name + " HTTP/1.1\r\nHost: " + name + "\r\n\r\n")); err != nil {
		return nil, err
	}
	var got []byte
	chunk := make([]byte, 2048)
	for {
		n, err := conn.Read(chunk)
		if n == 0 && err != nil {
			return nil, err
		}
		got = append(got, chunk[:n]...)
		if end := bytes.Index(got, []byte("\r\n\r\n")); end >= 0 {
			return got[end+4:], checkConnected(string(got[:end]))
		}
		if len(got) > maxHead {
			return nil, errors.New("the answer of the upstream proxy has no end")
		}
	}
}

func checkConnected(answer string) error {
	line, _, _ := strings.Cut(answer, "\r\n")
	version, rest, _ := strings.Cut(line, " ")
	status, _, _ := strings.Cut(rest, " ")
	if status != "200" || version != "HTTP/1.1" && version != "HTTP/1.0" {
		return &refusal{status: 502, code: errcode.EgressUpstreamRefused, reason: "the upstream proxy refused the connection"}
	}
	return nil
}
