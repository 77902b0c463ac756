package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/sage-sandbox/sage/internal/errcode"
)

const (
	// afterOrigin is how long a client may go on sending once the origin has
	// ended its side. Nearly always that is the end; but half-close is legal.
	afterOrigin = time.Minute
	// lingerTime is how long a client that has its answer may take to go.
	lingerTime = time.Second
)

// way is how the two directions of a connection go.
type way struct {
	up    func(dst stream) error
	down  func(src *origin) error
	after time.Duration // for up, once down has ended well
	http  bool          // as long as nothing has come down, a failure can be answered
}

// relay runs both directions to their ends. Each is nil when its source has
// ended; the failure of one ends the other.
func (c *session) relay(ctx context.Context, o *origin, w way) error {
	_ = c.client.SetDeadline(c.end)
	_ = o.SetDeadline(c.end)
	defer context.AfterFunc(ctx, func() { _ = o.Close() })()
	upErr := make(chan error, 1)
	go func() {
		err := w.up(o)
		if err != nil {
			c.stopBoth(o)
		}
		upErr <- err
	}()
	err := w.down(o)
	if err != nil {
		c.stopBoth(o)
	} else {
		soon := c.before(w.after)
		_, _ = c.client.SetReadDeadline(soon), o.SetWriteDeadline(soon)
	}
	return c.conclusion(<-upErr, err, o, w)
}

// conclusion makes the failure of a direction one for the peer that it led to,
// or says it in HTTP where the client has had nothing yet.
func (c *session) conclusion(up, down error, o *origin, w way) error {
	err := outcome(up, down, c.end)
	if up != nil || errors.Is(down, errLimit) {
		reset(o.stream)
	}
	switch {
	case down == nil || errors.As(err, new(*refusal)) && asRefusal(err).status == 403:
		// The answer is whole, or an alert is to come.
	case w.http && c.down.moved.Load() == 0:
		c.answer = c.answerHTTP
		if err == nil {
			err = failed(errcode.EgressConnectFailed, "waiting for the answer", down)
		}
	default:
		reset(c.client)
	}
	return err
}

// stopBoth wakes both directions up. The client stays open: it may be told why.
func (c *session) stopBoth(o *origin) {
	past := time.Unix(1, 0)
	_, _ = c.client.SetDeadline(past), o.SetDeadline(past)
}

// outcome tells what of two ends was the policy's doing. A peer that breaks the
// connection off is no failure of ours, and not rare.
func outcome(up, down error, end time.Time) error {
	for _, err := range []error{up, down} {
		if r, ok := errors.AsType[*refusal](err); ok {
			return r
		}
	}
	switch {
	case errors.Is(up, errLimit), errors.Is(down, errLimit):
		return overLimit("the connection, or the container, has used up its bytes")
	case (isTimeout(up) || isTimeout(down)) && !time.Now().Before(end):
		return &refusal{status: 504, code: errcode.EgressTimeout, reason: "the connection has used up its time"}
	}
	return nil
}

// reset makes the coming close an error for the peers: an end in good order
// would make a part look like the whole.
func reset(streams ...stream) {
	for _, s := range streams {
		if s, ok := s.(*socket); ok {
			s.resetOnClose()
		}
	}
}

// sendRest passes on what was read already, and what follows.
func (c *session) sendRest(dst stream) error {
	if len(c.pending) > 0 {
		if err := c.up.pass(dst, c.pending); err != nil {
			return err
		}
		c.pending = nil
	}
	return move(dst, c.client, &c.up)
}

func (c *session) receive(src *origin) error {
	if len(src.early) > 0 {
		if err := c.down.pass(c.client, src.early); err != nil {
			return err
		}
	}
	return move(c.client, src.stream, &c.down)
}
