package proxy

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/egress/clienthello"
	"github.com/sage-sandbox/sage/internal/errcode"
)

// secure serves a tunnel that must hold TLS for host.
func (c *session) secure(ctx context.Context, o *origin, host egress.Host) error {
	first, err := c.readHello(host)
	if err != nil {
		return err
	}
	return c.relayTLS(ctx, o, host, first)
}

// readHello reads the ClientHello whole, checks it and gives its bytes. What
// follows stays pending.
func (c *session) readHello(host egress.Host) ([]byte, error) {
	c.answersTLS()
	c.readBy(c.before(helloTime))
	var reader clienthello.Reader
	used := 0
	for {
		n, done, err := reader.Feed(c.pending[used:])
		if err != nil {
			return nil, badHello(err)
		}
		if used += n; done {
			break
		}
		if err := c.readMore(); err != nil {
			return nil, noHello(err)
		}
	}
	raw := c.pending[:used]
	c.pending = c.pending[used:]
	return raw, c.checkHello(host, reader.Hello())
}

func badHello(err error) error {
	if errors.Is(err, clienthello.ErrNotTLS) {
		return denied(errcode.EgressNotTLS, "the connection does not begin with TLS")
	}
	return denied(errcode.EgressHelloInvalid, err.Error())
}

func noHello(err error) error {
	if isTimeout(err) {
		return err
	}
	return denied(errcode.EgressHelloInvalid, "the connection ended before the ClientHello was whole")
}

// checkHello compares the name. A hello for an IP literal has none, RFC 6066.
func (c *session) checkHello(host egress.Host, hello clienthello.Hello) error {
	same := sameName(hello.Name, host.String())
	if !same && hello.Name != "" {
		c.line.SNI = strings.ToValidUTF8(hello.Name, "?")
	}
	switch {
	case hello.ECH && c.policy.ECH != egress.ECHOuter:
		return denied(errcode.EgressECHRefused, "the ClientHello may hide another name (ECH)")
	case hello.Name == "" && !host.IsIP():
		return denied(errcode.EgressSNIMissing, "the ClientHello names no server")
	case hello.Name != "" && !same:
		return denied(errcode.EgressSNIMismatch, "the ClientHello names another server")
	}
	return nil
}

// sameName compares by the rules of DNS, and by no others: strings.EqualFold
// and ToLower know letters outside ASCII that become ASCII ones.
func sameName(sni, host string) bool {
	for i := range len(sni) {
		if sni[i] >= 0x80 {
			return false
		}
	}
	return strings.ToLower(strings.TrimSuffix(sni, ".")) == host
}

// tlsWay is a relay in which a second ClientHello can still come, until the
// server has answered the first one with anything but HelloRetryRequest.
type tlsWay struct {
	*session
	host   egress.Host
	first  []byte
	answer atomic.Uint32 // a clienthello.Answer
}

func (c *session) relayTLS(ctx context.Context, o *origin, host egress.Host, first []byte) error {
	c.mute()
	t := &tlsWay{session: c, host: host, first: first}
	err := c.relay(ctx, o, way{up: t.send, down: t.receive, after: afterOrigin})
	var r *refusal
	if errors.As(err, &r) && r.status == 403 {
		// Still in the handshake, as it is not when a limit is met.
		c.answersTLS()
	}
	return err
}

func (t *tlsWay) send(dst stream) error {
	if err := t.up.pass(dst, t.first); err != nil {
		return err
	}
	t.first = nil
	if err := t.watch(dst); err != nil {
		if errors.Is(err, io.EOF) {
			return dst.CloseWrite()
		}
		return err
	}
	return t.sendRest(dst)
}

// watch passes on what the client sends until no second hello can come.
func (t *tlsWay) watch(dst stream) error {
	var client clienthello.Client
	check := func(h clienthello.Hello) error { return t.checkHello(t.host, h) }
	buf := buffers.Get().(*[bufferSize]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer buffers.Put(buf)
	chunk := t.pending
	t.pending = nil
	for !client.Done() {
		if t.answered() == clienthello.Accepted && !client.Holding() {
			return t.up.pass(dst, chunk)
		}
		pass, err := client.Feed(chunk, check)
		if err != nil && !errors.As(err, new(*refusal)) {
			err = badHello(err)
		}
		if err != nil {
			return err
		}
		if err := t.up.pass(dst, pass); err != nil {
			return err
		}
		if client.Done() {
			return nil
		}
		n, err := t.client.Read(buf[:])
		if n == 0 && err != nil {
			return err
		}
		chunk = buf[:n]
	}
	return nil
}

func (t *tlsWay) answered() clienthello.Answer { return clienthello.Answer(t.answer.Load()) }

// receive looks at the answer of the server before the client sees it, so that
// whatever the client says to it is judged by it.
func (t *tlsWay) receive(src *origin) error {
	if err := t.awaitAnswer(src); err != nil {
		if errors.Is(err, io.EOF) {
			return t.client.CloseWrite()
		}
		return err
	}
	src.early = nil
	return t.session.receive(src)
}

func (t *tlsWay) awaitAnswer(src *origin) error {
	var server clienthello.Server
	buf := buffers.Get().(*[bufferSize]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer buffers.Put(buf)
	chunk := src.early
	for {
		answer, err := server.Feed(chunk)
		if err != nil {
			return denied(errcode.EgressNotTLS, "the server does not answer in TLS")
		}
		t.answer.Store(uint32(answer))
		if err := t.down.pass(t.client, chunk); err != nil {
			return err
		}
		if answer != clienthello.Unknown {
			return nil
		}
		n, err := src.Read(buf[:])
		if n == 0 && err != nil {
			return err
		}
		chunk = buf[:n]
	}
}
