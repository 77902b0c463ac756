package egress

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// Counter is the place of one number in a container's file of counters: an
// array of 64-bit words in the machine's byte order, which the proxy adds to
// atomically and others read while it runs.
type Counter int

// The counters. Their places are the file's format: append only.
const (
	CounterAllowed    Counter = iota // decisions to allow a connection
	CounterDenied                    // decisions to deny one, limits not included
	CounterActive                    // connections with a server now
	CounterHeld                      // connections held now, those that wait included
	CounterAccepted                  // connections that came
	CounterLimited                   // connections refused or cut for a limit
	CounterFailed                    // allowed, but no server could be reached
	CounterBytesUp                   // to servers
	CounterBytesDown                 // from servers
	CounterDNSAllowed                // questions to the stub resolver, answered
	CounterDNSRefused                // questions to it, refused
	CounterAuditLost                 // audit lines that could not be written

	// What CounterDenied counts, by code.
	CounterDeniedHost
	CounterDeniedPort
	CounterDeniedScheme
	CounterDeniedAddress
	CounterDeniedRequest
	CounterDeniedTimeout
	CounterDeniedNotTLS
	CounterDeniedSNIMissing
	CounterDeniedSNIMismatch
	CounterDeniedECH
	CounterDeniedHello

	NumCounters // of them
)

// CountersSize is the length of the file, in bytes: a page, so that counters
// can be added without another size.
const CountersSize = 4096

// CounterInfo is how Prometheus is told of a counter.
type CounterInfo struct {
	Name  string // after sage_egress_
	Help  string
	Gauge bool // goes down too
	// Code is of the denials that the counter is for. Those with one are a part of
	// CounterDenied, whose name they share.
	Code errcode.Code
}

// Counters describe the counters, in their order.
var Counters = [NumCounters]CounterInfo{
	CounterAllowed:    {Name: "allowed_total", Help: "Connections that the policy allowed."},
	CounterDenied:     {Name: deniedName, Help: deniedHelp},
	CounterActive:     {Name: "active_connections", Help: "Connections with a server now.", Gauge: true},
	CounterHeld:       {Name: "held_connections", Help: "Connections held now, waiting ones included.", Gauge: true},
	CounterAccepted:   {Name: "accepted_total", Help: "Connections that came to the proxy."},
	CounterLimited:    {Name: "limited_total", Help: "Connections refused or ended for a limit."},
	CounterFailed:     {Name: "failed_total", Help: "Allowed connections for which no server could be reached."},
	CounterBytesUp:    {Name: "sent_bytes_total", Help: "Bytes sent to servers."},
	CounterBytesDown:  {Name: "received_bytes_total", Help: "Bytes received from servers."},
	CounterDNSAllowed: {Name: "dns_allowed_total", Help: "Questions that the stub resolver answered."},
	CounterDNSRefused: {Name: "dns_refused_total", Help: "Questions that the stub resolver refused."},
	CounterAuditLost:  {Name: "audit_lost_total", Help: "Audit lines that could not be written."},

	CounterDeniedHost:        denials(errcode.EgressHostDenied),
	CounterDeniedPort:        denials(errcode.EgressPortDenied),
	CounterDeniedScheme:      denials(errcode.EgressSchemeDenied),
	CounterDeniedAddress:     denials(errcode.EgressAddressDenied),
	CounterDeniedRequest:     denials(errcode.EgressBadRequest),
	CounterDeniedTimeout:     denials(errcode.EgressTimeout),
	CounterDeniedNotTLS:      denials(errcode.EgressNotTLS),
	CounterDeniedSNIMissing:  denials(errcode.EgressSNIMissing),
	CounterDeniedSNIMismatch: denials(errcode.EgressSNIMismatch),
	CounterDeniedECH:         denials(errcode.EgressECHRefused),
	CounterDeniedHello:       denials(errcode.EgressHelloInvalid),
}

const (
	deniedName = "denied_total"
	deniedHelp = "Connections that the policy denied, by code."
)

func denials(code errcode.Code) CounterInfo {
	return CounterInfo{Name: deniedName, Help: deniedHelp, Code: code}
}

// DenialCounter is the counter for denials with one code, and false where there
// is none for it, so that CounterDenied alone counts them.
func DenialCounter(code errcode.Code) (Counter, bool) {
	for i := range Counters {
		if Counters[i].Code == code && code != "" {
			return Counter(i), true
		}
	}
	return 0, false
}

// Counts are the counters of one container, as they were read.
type Counts [NumCounters]uint64

// ParseCounts reads a whole file of counters. Who writes it is unprivileged and
// talks to the internet, and may be in other hands: a file of another length is
// refused, and so is a number that no counting comes to, above 2^63-1 (a gauge
// below zero is one). Numbers within that are what the writer says they are.
// What follows the counters that are known here is of a newer writer's, and
// passed over.
func ParseCounts(file []byte) (Counts, error) {
	var c Counts
	if len(file) != CountersSize {
		return c, fmt.Errorf("counters: saw %d bytes, want %d", len(file), CountersSize)
	}
	for i := range c {
		n := binary.NativeEndian.Uint64(file[i*8:])
		if n > math.MaxInt64 {
			return Counts{}, fmt.Errorf("counters: saw %d in place %d, want %d at most", n, i, math.MaxInt64)
		}
		c[i] = n
	}
	return c, nil
}

// OtherDenials are those whose code has no counter of its own here.
func (c Counts) OtherDenials() uint64 {
	left := c[CounterDenied]
	for i := range Counters {
		if Counters[i].Code != "" {
			left -= min(left, c[i])
		}
	}
	return left
}
