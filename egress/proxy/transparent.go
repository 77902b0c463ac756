package proxy

import (
	"context"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/egress/clienthello"
	"github.com/sage-sandbox/sage/internal/errcode"
)

// transparent serves a client that connected to a synthetic address and knows
// of no proxy. The address says which name it was given out for; what the
// client sends must say the same.
func (c *session) transparent(ctx context.Context) error {
	c.mute()
	host, err := c.behind()
	if err != nil {
		return err
	}
	port := c.arrival.Local.Port()
	d, denial := c.decide(egress.SchemeTunnel, host, port)
	if d.Allow && d.Scheme == egress.SchemeTCP {
		return c.transparentTCP(ctx, host)
	}
	// Only the client knows whether it will speak TLS. It is also let speak when
	// neither is allowed, so that it can be told in words that it understands.
	c.readBy(c.before(headTime))
	if err := c.readMore(); err != nil {
		return err
	}
	if !clienthello.Begins(c.pending) {
		return c.transparentHTTP(ctx, host)
	}
	c.answersTLS()
	if denial != nil {
		return denial
	}
	return c.transparentTLS(ctx, host)
}

func (c *session) behind() (egress.Host, error) {
	addr := c.arrival.Local.Addr()
	c.line.Addr = c.arrival.Local.String()
	if c.stub != nil {
		if host, ok := c.stub.Name(addr); ok {
			c.line.Addr = ""
			return host, nil
		}
	}
	c.line.Port = c.arrival.Local.Port()
	return egress.Host{}, denied(errcode.EgressHostDenied, "the address stands for no name that was asked for")
}

func (c *session) transparentTCP(ctx context.Context, host egress.Host) error {
	c.line.Unchecked = true
	o, err := c.reach(ctx, host, c.arrival.Local.Port())
	if err != nil {
		return err
	}
	defer o.Close()
	return c.relay(ctx, o, way{up: c.sendRest, down: c.receive, after: afterOrigin})
}

// transparentTLS reads the hello first: for a wrong one nothing is looked up.
func (c *session) transparentTLS(ctx context.Context, host egress.Host) error {
	first, err := c.readHello(host)
	if err != nil {
		return err
	}
	o, err := c.reach(ctx, host, c.arrival.Local.Port())
	if err != nil {
		return err
	}
	defer o.Close()
	return c.relayTLS(ctx, o, host, first)
}

func (c *session) transparentHTTP(ctx context.Context, host egress.Host) error {
	c.answer = c.answerHTTP
	port := c.arrival.Local.Port()
	if _, err := c.decide(egress.SchemeHTTP, host, port); err != nil {
		return err
	}
	h, err := c.readHead()
	if err != nil {
		return err
	}
	c.line.Method = auditMethod(h.method)
	r, err := originRequest(h, port)
	if err != nil {
		return err
	}
	if r.host != host {
		return denied(errcode.EgressHostDenied, "Host is not the name that was connected to")
	}
	return c.plain(ctx, h, r)
}
