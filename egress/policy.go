package egress

import "time"

// Mode is where a container's traffic may go.
type Mode string

// The modes, as spec has them.
const (
	ModeNone         Mode = "none"
	ModeAllowlist    Mode = "allowlist"
	ModeProxy        Mode = "proxy" // through an upstream proxy, never around it
	ModeUnrestricted Mode = "unrestricted"
)

// ECH is what becomes of a ClientHello with an encrypted one inside, whose
// inner name nobody but the server can read.
type ECH string

// The values. Browsers send GREASE that cannot be told from it (G-12).
const (
	ECHRefuse ECH = "refuse"
	ECHOuter  ECH = "outer" // the outer name is checked, and must match
)

// Policy is what the proxy of one container decides by. It is plain JSON; the
// rules stand in their text form. The zero value denies all.
type Policy struct {
	Mode  Mode   `json:"mode"`
	Allow []Rule `json:"allow"`
	// Deny wins over Allow. A rule there without a scheme or port is for all.
	Deny []Rule `json:"deny"`
	// Ports and Schemes are what a rule of Allow stands for that names none.
	Ports   []uint16 `json:"ports"`
	Schemes []string `json:"schemes"`
	// DenyPrivate refuses the private ranges too; see [CheckAddr].
	DenyPrivate bool      `json:"deny_private"`
	Upstream    *Upstream `json:"upstream,omitempty"` // of ModeProxy
	ECH         ECH       `json:"ech"`
	Limits      Limits    `json:"limits"`
	// Transparent is the path for clients that know of no proxy.
	Transparent bool `json:"transparent,omitempty"`
}

// Upstream is the proxy through which all goes in the mode proxy. Its own
// address may be a private one: the host's file names it (S-067).
type Upstream struct {
	Scheme string `json:"scheme"` // http, or https for TLS to the proxy itself
	Host   string `json:"host"`   // canonical, IPv6 without brackets
	Port   uint16 `json:"port"`
}

// Limits bound what one container can do through its proxy (S-074, S-088). 0 is
// no bytes or connections, but of Total, where it is no budget.
type Limits struct {
	Wall        time.Duration `json:"wall_ns"`     // of one connection, from accept to its end
	Upload      int64         `json:"upload"`      // bytes of one connection, to the server
	Download    int64         `json:"download"`    // bytes of one connection, from it
	Total       int64         `json:"total"`       // bytes of all connections in both directions
	Connections int           `json:"connections"` // held at once, those that wait included
	Active      int           `json:"active"`      // of these, with a server
}
