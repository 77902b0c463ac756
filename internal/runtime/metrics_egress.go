package runtime

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sampler"
	"github.com/sage-sandbox/sage/internal/state"
)

func proxied(record *state.Record) bool {
	return record != nil && record.Network != nil && record.Network.Proxy
}

// egressCounts are those of a container's proxy, nil before there is one. Once
// the container has stopped there may be none either: it can have ended before it
// was started, and be deleted right now.
func (h *Host) egressCounts(id string, stopped bool) (*egress.Counts, error) {
	if !stopped {
		s, err := state.LoadServing(h.stateDir(id))
		if err != nil || s.Proxy == nil {
			return nil, err
		}
	}
	data, err := readCounters(h.egressPath(id, countersFile))
	if stopped && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := egress.ParseCounts(data)
	return &c, err
}

// readCounters reads a file that the proxy has open for writing, and the proxy
// may be in other hands: it can be of any length, and change while it is read.
// It is read and not mapped, since a mapping of a file that becomes shorter ends
// who looks at it. Its name is in a directory of root's alone; that it is a plain
// file costs little to see, and nothing here waits for another kind.
func readCounters(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() != egress.CountersSize {
		return nil, fmt.Errorf("counters: saw a file of mode %v and %d bytes, want a regular one of %d", info.Mode(), info.Size(), egress.CountersSize)
	}
	return io.ReadAll(io.LimitReader(f, egress.CountersSize))
}

// EgressStats are the counters of a container's proxy, for the events command.
type EgressStats struct {
	Accepted uint64 `json:"accepted"` // connections that came to the proxy
	Allowed  uint64 `json:"allowed"`  // of which the policy allowed, and a server answered
	Denied   uint64 `json:"denied"`   // the policy denied
	// DeniedByCode has no entry for a code that was not needed yet.
	DeniedByCode  map[errcode.Code]uint64 `json:"denied_by_code,omitempty"`
	Limited       uint64                  `json:"limited"` // were refused or ended for a limit
	Failed        uint64                  `json:"failed"`  // were allowed, and no server could be reached
	Active        uint64                  `json:"active_connections"`
	Held          uint64                  `json:"held_connections"`
	SentBytes     uint64                  `json:"sent_bytes"` // to servers
	ReceivedBytes uint64                  `json:"received_bytes"`
	DNSAllowed    uint64                  `json:"dns_allowed"`
	DNSRefused    uint64                  `json:"dns_refused"`
	AuditLost     uint64                  `json:"audit_lost"`
}

func egressStats(c *egress.Counts) *EgressStats {
	s := &EgressStats{
		Accepted: c[egress.CounterAccepted], Allowed: c[egress.CounterAllowed], Denied: c[egress.CounterDenied],
		Limited: c[egress.CounterLimited], Failed: c[egress.CounterFailed],
		Active: c[egress.CounterActive], Held: c[egress.CounterHeld],
		SentBytes: c[egress.CounterBytesUp], ReceivedBytes: c[egress.CounterBytesDown],
		DNSAllowed: c[egress.CounterDNSAllowed], DNSRefused: c[egress.CounterDNSRefused], AuditLost: c[egress.CounterAuditLost],
		DeniedByCode: map[errcode.Code]uint64{},
	}
	for i := range egress.Counters {
		if code := egress.Counters[i].Code; code != "" && c[i] > 0 {
			s.DeniedByCode[code] = c[i]
		}
	}
	return s
}

// egress adds the proxy's counters, which outlive it. Denials are told by code
// alone, so that their sum is the number of all.
func (r *reading) egress(h *Host, stopped bool) error {
	c, err := h.egressCounts(r.id, stopped)
	if err != nil || c == nil {
		return err
	}
	for i, info := range egress.Counters {
		name := egressMetric(egress.Counter(i))
		switch {
		case info.Code != "":
			r.add(name, float64(c[i]), Label{"code", string(info.Code)})
		case egress.Counter(i) == egress.CounterDenied:
			if other := c.OtherDenials(); other > 0 {
				r.add(name, float64(other), Label{"code", "other"})
			}
		default:
			r.add(name, float64(c[i]))
		}
	}
	return nil
}

// proxy adds whether it is there, from the start of the container's program on.
// Where that cannot be told, [reading.egress] says so.
func (r *reading) proxy(h *Host) {
	s, err := state.LoadServing(h.stateDir(r.id))
	if err != nil || s.Proxy == nil {
		return
	}
	up := 0.0
	if (sampler.Process{Pid: s.Proxy.Pid, Start: s.Proxy.Start}).Alive() {
		up = 1
	}
	r.add("sage_egress_proxy_up", up)
}
