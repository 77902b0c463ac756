package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
)

// proxied serves a client that knows that it talks to a proxy.
func (c *session) proxied(ctx context.Context) error {
	h, err := c.readHead()
	if err != nil {
		return err
	}
	c.line.Method = auditMethod(h.method)
	r, err := parseRequest(h)
	if err != nil {
		return err
	}
	if r.connect {
		return c.tunnel(ctx, r)
	}
	if _, err := c.decide(egress.SchemeHTTP, r.host, r.port); err != nil {
		return err
	}
	return c.plain(ctx, h, r)
}

// auditMethod keeps what a client made up out of the audit.
func auditMethod(method string) string {
	if len(method) > 16 {
		return "other"
	}
	return method
}

// readHead reads up to the end of a head; what follows it stays pending.
func (c *session) readHead() (head, error) {
	c.readBy(c.before(headTime))
	checked := 0
	for {
		end, whole, err := endOfHead(c.pending, checked)
		if err != nil {
			return head{}, err
		}
		if whole {
			text := c.pending[:end]
			c.pending = c.pending[end:]
			return parseHead(text)
		}
		checked = len(c.pending)
		if err := c.readMore(); err != nil {
			return head{}, err
		}
	}
}

// readMore appends what the client sends next to pending. A client that ends in
// the middle asked for nothing that could be understood.
func (c *session) readMore() error {
	const room = 2 << 10
	if cap(c.pending)-len(c.pending) < room {
		c.pending = append(make([]byte, 0, 2*len(c.pending)+room), c.pending...)
	}
	n, err := c.client.Read(c.pending[len(c.pending):cap(c.pending)])
	c.pending = c.pending[:len(c.pending)+n]
	switch {
	case n > 0:
		return nil
	case len(c.pending) == 0 && !isTimeout(err):
		return errNothing
	case errors.Is(err, io.EOF):
		return malformed("the connection ended in the middle of the request")
	}
	return err
}

const established = "HTTP/1.1 200 Connection Established\r\n\r\n"

// tunnel serves CONNECT. The client begins TLS when it has seen the 200, so
// that must come before its hello can be read, but nothing of the hello goes to
// the origin before it was read whole and found to name the same host.
func (c *session) tunnel(ctx context.Context, r request) error {
	d, err := c.decide(egress.SchemeTunnel, r.host, r.port)
	if err != nil {
		return err
	}
	o, err := c.reach(ctx, r.host, r.port)
	if err != nil {
		return err
	}
	defer o.Close()
	c.mute()
	if _, err := c.client.Write([]byte(established)); err != nil {
		return err
	}
	if d.Scheme == egress.SchemeTCP {
		c.line.Unchecked = true
		return c.relay(ctx, o, way{up: c.sendRest, down: c.receive, after: afterOrigin})
	}
	return c.secure(ctx, o, r.host)
}

// plain sends one request and passes on what comes back. Whatever the client
// sends after the body is not looked at and goes nowhere: there is no second
// request on a connection, so nothing can hide in front of one.
func (c *session) plain(ctx context.Context, h head, r request) error {
	if r.length > c.policy.Limits.Upload {
		return overLimit("the request is larger than the policy allows to send")
	}
	o, err := c.reach(ctx, r.host, r.port)
	if err != nil {
		return err
	}
	defer o.Close()
	if err := c.up.pass(o, r.appendHead(nil, h, authority(r.host, r.port))); err != nil {
		if errors.Is(err, errLimit) {
			return overLimit("the request is larger than the policy allows to send")
		}
		return failed(errcode.EgressConnectFailed, "sending the request", err)
	}
	c.mute()
	sender := &body{session: c, left: r.length}
	return c.relay(ctx, o, way{up: sender.send, down: c.receive, after: lingerTime, http: true})
}

// authority is Host as the origin gets it: without the port that http implies.
func authority(h egress.Host, port uint16) string {
	name := h.String()
	if port != 80 {
		return net.JoinHostPort(name, strconv.Itoa(int(port)))
	}
	if h.IsIP() && h.Addr().Is6() {
		return "[" + name + "]"
	}
	return name
}

// body sends what is left of a request's body. Afterwards it only waits for the
// client to go away.
type body struct {
	*session
	left int64
}

func (b *body) send(dst stream) error {
	if err := b.sendAll(dst); err != nil {
		return err
	}
	// Notices a client that is gone, so that the origin is not kept waiting for
	// it. One that has only ended its own side still wants the answer. What it
	// sends besides is read, since a close with bytes unread resets.
	var sink [512]byte
	for {
		if _, err := b.client.Read(sink[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (b *body) sendAll(dst stream) error {
	chunk := b.pending[:min(int64(len(b.pending)), b.left)]
	if err := b.up.pass(dst, chunk); err != nil {
		return err
	}
	b.left -= int64(len(chunk))
	if b.left == 0 {
		return nil
	}
	buf := buffers.Get().(*[bufferSize]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer buffers.Put(buf)
	for b.left > 0 {
		n, err := b.client.Read(buf[:min(int64(len(buf)), b.left)])
		if n == 0 && err != nil {
			return err // in the middle of the body
		}
		if err := b.up.pass(dst, buf[:n]); err != nil {
			return err
		}
		b.left -= int64(n)
	}
	return nil
}
