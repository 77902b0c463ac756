package egress

import (
	"time"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// The values of [AuditLine] that are words.
const (
	EventEgress = "egress" // a connection
	EventDNS    = "dns"    // a question to the stub resolver
	ActionAllow = "allow"
	ActionDeny  = "deny"
)

// AuditLine is one line of a container's egress audit: one decision, written
// when its connection has ended. It holds names and numbers, never a path, a
// header or a byte of what was sent.
type AuditLine struct {
	Time      time.Time    `json:"time"` // of the decision
	Container string       `json:"container"`
	Event     string       `json:"event"`
	Action    string       `json:"action"`
	Kind      string       `json:"kind"`             // of [Kind]
	Scheme    string       `json:"scheme,omitempty"` // https, http, tcp
	Method    string       `json:"method,omitempty"` // of the request to the proxy; the question's type for dns
	Host      string       `json:"host,omitempty"`   // canonical, "" where it has no such form
	Port      uint16       `json:"port,omitempty"`
	SNI       string       `json:"sni,omitempty"`  // as the hello has it, where it differs from host
	Rule      string       `json:"rule,omitempty"` // that decided
	Code      errcode.Code `json:"code,omitempty"`
	Reason    string       `json:"reason,omitempty"`
	Addr      string       `json:"addr,omitempty"`      // address and port that was dialled
	Unchecked bool         `json:"unchecked,omitempty"` // tcp: no name was checked in what was sent
	Up        int64        `json:"up,omitempty"`        // bytes to the server
	Down      int64        `json:"down,omitempty"`
	MS        int64        `json:"ms"`                 // from accept to the end
	Dials     string       `json:"dials,omitempty"`    // from where: host or engine
	Upstream  string       `json:"upstream,omitempty"` // host:port of the upstream proxy
}
