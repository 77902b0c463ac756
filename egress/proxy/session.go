package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
)

// The parts of making a connection, each with its own limit inside that of the
// whole. A client that sends its request slowly holds a place as long as that,
// and no longer.
const (
	headTime  = 30 * time.Second
	helloTime = 10 * time.Second
	reachTime = 30 * time.Second
)

// session is one connection from the container.
type session struct {
	*server
	client  stream
	arrival egress.Arrival
	start   time.Time
	end     time.Time // of all of it
	line    egress.AuditLine
	pending []byte // read from the client, not yet used
	up      meter
	down    meter
	free    func() // gives up the place among the connections
	leave   func() // gives up the place among the active ones

	// answer tells the client why it goes no further, in the protocol in which it
	// waits for an answer.
	answer func(*refusal) []byte
}

func (s *server) newSession(client stream, arrival egress.Arrival) *session {
	now := time.Now()
	c := &session{
		server: s, client: client, arrival: arrival, start: now, end: now.Add(s.policy.Limits.Wall),
		line: egress.AuditLine{Time: now, Event: egress.EventEgress, Kind: arrival.Kind.String()},
	}
	c.up = meter{gate: s.gate, record: s.record, total: egress.CounterBytesUp, left: s.policy.Limits.Upload}
	c.down = meter{gate: s.gate, record: s.record, total: egress.CounterBytesDown, left: s.policy.Limits.Download}
	c.answer = c.answerHTTP
	return c
}

// before is the end of a part that may take so long.
func (c *session) before(d time.Duration) time.Time {
	if end := time.Now().Add(d); end.Before(c.end) {
		return end
	}
	return c.end
}

// errNothing is for a client that went away before it asked for anything.
var errNothing = errors.New("nothing was asked for")

// run serves the connection to its end and leaves one line about it.
func (c *session) run(ctx context.Context) {
	defer c.client.Close()
	defer context.AfterFunc(ctx, func() { _ = c.client.Close() })()
	var err error
	if c.arrival.Kind == egress.KindTransparent {
		err = c.transparent(ctx)
	} else {
		err = c.proxied(ctx)
	}
	if c.leave != nil {
		c.leave()
	}
	if errors.Is(err, errNothing) {
		return
	}
	c.conclude(err)
}

// conclude says how it ended: to the audit, and to the client if it waits for
// an answer.
func (c *session) conclude(err error) {
	c.line.Action = egress.ActionAllow
	var words []byte
	if err != nil {
		r := asRefusal(err)
		c.refused(r)
		words = c.answer(r)
	}
	c.line.Up, c.line.Down = c.up.moved.Load(), c.down.moved.Load()
	c.line.MS = time.Since(c.start).Milliseconds()
	c.record.write(c.line)
	if words != nil {
		c.part(words)
	}
}

// refused counts: limits and failures are no denials, and what was allowed and
// cut stays allowed.
func (c *session) refused(r *refusal) {
	c.line.Code, c.line.Reason = r.code, r.reason
	if r.rule != "" {
		c.line.Rule = r.rule
	}
	switch {
	case r.code == errcode.EgressLimitExceeded:
		c.record.add(egress.CounterLimited, 1)
	case r.status >= 500:
		c.record.add(egress.CounterFailed, 1)
	default:
		c.record.denied(r.code)
	}
	if r.status < 500 || r.code == errcode.EgressLimitExceeded && c.up.moved.Load()+c.down.moved.Load() == 0 {
		c.line.Action = egress.ActionDeny
	}
}

func (c *session) answerHTTP(r *refusal) []byte {
	target := "request"
	if c.line.Host != "" {
		target = net.JoinHostPort(c.line.Host, strconv.Itoa(int(c.line.Port)))
	}
	return r.response(target)
}

func answerTLS(r *refusal) []byte     { return r.alert() }
func answerNone(*refusal) []byte      { return nil }
func (c *session) mute()              { c.answer = answerNone }
func (c *session) answersTLS()        { c.answer = answerTLS }
func (c *session) readBy(t time.Time) { _ = c.client.SetReadDeadline(t) }

// part sends the last words. A socket that is closed with bytes unread is
// reset, and the reset can overtake them; so what the client still sends is
// thrown away for a moment, if there are not too many that do this.
func (c *session) part(words []byte) {
	_ = c.client.SetDeadline(time.Now().Add(lingerTime))
	if _, err := c.client.Write(words); err != nil || c.client.CloseWrite() != nil {
		return
	}
	select {
	case c.gate.linger <- struct{}{}:
		defer func() { <-c.gate.linger }()
		c.free() // a client that does not close must not keep others out
	default:
		return
	}
	var sink [1 << 10]byte
	for range 64 {
		if _, err := c.client.Read(sink[:]); err != nil {
			return
		}
	}
}

// decide asks the policy, and has the answer in the audit line.
func (c *session) decide(scheme string, h egress.Host, port uint16) (egress.Decision, error) {
	d := egress.Decide(c.policy, egress.Request{Scheme: scheme, Host: h, Port: port, Kind: c.arrival.Kind})
	c.line.Host, c.line.Port, c.line.Rule, c.line.Scheme = h.String(), port, d.Rule, d.Scheme
	if !d.Allow {
		c.line.Scheme = scheme
		return d, byDecision(d)
	}
	return d, nil
}

// reach gets a connection to an allowed host: a place among the active ones,
// the host's addresses, once, those of them that may be dialled, and one that
// answers.
func (c *session) reach(ctx context.Context, h egress.Host, port uint16) (*origin, error) {
	ctx, cancel := context.WithDeadline(ctx, c.before(reachTime))
	defer cancel()
	if err := c.gate.enter(ctx); err != nil {
		return nil, err
	}
	c.record.add(egress.CounterActive, 1)
	c.leave = func() {
		c.record.add(egress.CounterActive, -1)
		c.gate.leave()
	}
	addrs, err := c.addresses(ctx, h)
	if err != nil {
		return nil, err
	}
	o, err := c.dial(ctx, addrs, port)
	if err != nil {
		return nil, err
	}
	c.line.Addr = o.addr.String()
	c.record.add(egress.CounterAllowed, 1)
	return o, nil
}

// addresses resolves a name, and keeps what may be dialled.
func (c *session) addresses(ctx context.Context, h egress.Host) ([]netip.Addr, error) {
	all := []netip.Addr{h.Addr()}
	if !h.IsIP() {
		var err error
		if all, err = c.lookup.host(ctx, h.Name()); err != nil {
			return nil, lookupFailed(err)
		}
	}
	env, all, err := c.surroundings(ctx, all)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	var why *refusal
	for _, addr := range all {
		d := egress.CheckAddr(c.policy, h, addr, env)
		if d.Allow {
			addrs = append(addrs, addr.Unmap())
		} else if why == nil {
			why = byDecision(d)
			c.line.Addr = addr.String()
		}
	}
	if len(addrs) == 0 {
		return nil, why
	}
	return interleave(addrs), nil
}

// surroundings is what addresses are judged by. Without knowing how the network
// reaches IPv4 in IPv6, no IPv6 address can be.
func (c *session) surroundings(ctx context.Context, all []netip.Addr) (egress.Env, []netip.Addr, error) {
	env := c.env
	is6 := func(a netip.Addr) bool { return !a.Unmap().Is4() && !a.IsLoopback() }
	if !slices.ContainsFunc(all, is6) {
		return env, all, nil
	}
	prefixes, err := c.nat64.prefixes(ctx)
	if err != nil {
		if all = slices.DeleteFunc(all, is6); len(all) == 0 {
			return env, nil, failed(errcode.EgressResolveFailed, "asking for the network's NAT64 prefix", err)
		}
	}
	env.NAT64 = prefixes
	return env, all, nil
}

func lookupFailed(err error) error {
	if errors.Is(err, errNoSuchHost) {
		return &refusal{status: 502, code: errcode.EgressResolveFailed, reason: "the name has no address"}
	}
	r := failed(errcode.EgressResolveFailed, "resolving the name", err)
	r.code = errcode.EgressResolveFailed
	return r
}

func (c *session) dial(ctx context.Context, addrs []netip.Addr, port uint16) (*origin, error) {
	if c.upstream != nil {
		c.line.Upstream = net.JoinHostPort(c.upstream.Host, strconv.Itoa(int(c.upstream.Port)))
		return c.upstream.dial(ctx, addrs, port)
	}
	o, err := dialAny(ctx, addrs, port)
	if err != nil {
		return nil, failed(errcode.EgressConnectFailed, "connecting", err)
	}
	return o, nil
}
