package proxy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sage-sandbox/sage/egress"
)

// gate holds a container to its limits, over all its connections.
type gate struct {
	held   chan struct{} // one element a connection
	active chan struct{} // one element a connection with a server
	linger chan struct{} // one element a connection that only waits to be closed
	// total is what is left of the container's bytes in both directions.
	total   atomic.Int64
	limited bool
}

// activeWait is how long a connection waits for its turn. A client gives up
// after about as long.
const activeWait = 30 * time.Second

func newGate(l egress.Limits, files uint64) *gate {
	connections := l.Connections
	// A connection takes four descriptors at most while it is made (two sockets,
	// a pipe) and a reserve stays for the nameservers, so that the limit is met
	// here and not by a call that fails in the middle.
	if most := int(min(files, 1<<20)-min(files, reserved)) / 4; connections > most {
		connections = most
	}
	g := &gate{
		held:   make(chan struct{}, max(0, connections)),
		active: make(chan struct{}, max(0, l.Active)),
		linger: make(chan struct{}, maxLinger), limited: l.Total > 0,
	}
	g.total.Store(l.Total)
	return g
}

// maxLinger is how many connections at once may wait to be closed, and reserved
// the number of descriptors that are not for the others: for these, and for
// files and nameservers.
const maxLinger, reserved = 64, maxLinger + 64

// hold takes a place without waiting.
func (g *gate) hold() bool {
	select {
	case g.held <- struct{}{}:
		return true
	default:
		return false
	}
}

func (g *gate) release() { <-g.held }

// enter waits for a place among the active ones.
func (g *gate) enter(ctx context.Context) error {
	wait := time.NewTimer(activeWait)
	defer wait.Stop()
	select {
	case g.active <- struct{}{}:
		return nil
	case <-wait.C:
		return overLimit("too many connections of this container are active")
	case <-ctx.Done():
		return overLimit("too many connections of this container are active")
	}
}

func (g *gate) leave() { <-g.active }

// spend takes n bytes off the budget, or fails and takes none.
func (g *gate) spend(n int64) bool {
	if !g.limited {
		return true
	}
	for {
		left := g.total.Load()
		if left < n {
			return false
		}
		if g.total.CompareAndSwap(left, left-n) {
			return true
		}
	}
}

// errLimit is the error of a direction that has used up its bytes.
var errLimit = errors.New("limit of bytes reached")

// meter counts one direction of one connection.
type meter struct {
	gate   *gate
	record *record
	total  egress.Counter
	left   int64
	moved  atomic.Int64
}

// take accounts for n bytes before they are passed on; what goes over a limit
// is not.
func (m *meter) take(n int) error {
	if int64(n) > m.left || !m.gate.spend(int64(n)) {
		return errLimit
	}
	m.left -= int64(n)
	m.moved.Add(int64(n))
	m.record.add(m.total, int64(n))
	return nil
}
