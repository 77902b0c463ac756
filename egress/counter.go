package egress

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
	NumCounters                      // of them
)

// CountersSize is the length of the file, in bytes: a page, so that counters
// can be added without another size.
const CountersSize = 4096

// CounterInfo is how Prometheus is told of a counter.
type CounterInfo struct {
	Name  string // after sage_egress_
	Help  string
	Gauge bool // goes down too
}

// Counters describe the counters, in their order.
var Counters = [NumCounters]CounterInfo{
	CounterAllowed:    {Name: "allowed_total", Help: "Connections that the policy allowed."},
	CounterDenied:     {Name: "denied_total", Help: "Connections that the policy denied."},
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
}
