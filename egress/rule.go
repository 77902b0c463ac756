package egress

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The schemes of rules and requests.
const (
	SchemeHTTPS = "https" // TLS, whose ClientHello must name the host
	SchemeHTTP  = "http"  // one plain request, whose Host is rebuilt
	SchemeTCP   = "tcp"   // any bytes: nothing in them is checked
)

// Rule is one entry of a list of hosts: [scheme://]pattern[:port]. Its zero
// value matches nothing; [ParseRule] makes the others, and == compares two.
type Rule struct {
	scheme  string // "" stands for the policy's schemes, of which tcp is never one
	pattern Pattern
	any     bool   // "*": every name
	port    uint16 // 0 stands for the policy's ports
}

// ParseRule reads a rule into its one form. A rule for tcp names one host and
// one port, since nothing but the address that it leads to can be checked.
func ParseRule(s string) (Rule, error) {
	scheme, rest, err := cutScheme(s)
	if err != nil {
		return Rule{}, err
	}
	host, port, err := cutPort(rest, scheme != "")
	if err != nil {
		return Rule{}, err
	}
	r := Rule{scheme: scheme, port: port, any: host == "*"}
	if !r.any {
		if r.pattern, err = ParsePattern(host); err != nil {
			return Rule{}, err
		}
	}
	if scheme == SchemeTCP && (r.any || r.pattern.kind == kindBelow || port == 0) {
		return Rule{}, errors.New("saw a rule for tcp with a wildcard or without a port; want tcp://host:port, since no name is checked there")
	}
	return r, nil
}

func cutScheme(s string) (scheme, rest string, err error) {
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		return "", s, nil
	}
	scheme = strings.ToLower(scheme)
	if !slices.Contains([]string{SchemeHTTPS, SchemeHTTP, SchemeTCP}, scheme) {
		return "", "", errors.New("saw a scheme before ://, want https, http or tcp")
	}
	return scheme, rest, nil
}

// cutPort takes the port off. Two colons without brackets are an IPv6 address,
// but not after a scheme: there the last group reads as a port to some.
func cutPort(s string, scheme bool) (host string, port uint16, err error) {
	colon := strings.LastIndexByte(s, ':')
	if strings.HasPrefix(s, "[") {
		if colon < strings.IndexByte(s, ']') {
			return s, 0, nil
		}
	} else if !scheme && strings.Count(s, ":") > 1 {
		return s, 0, nil
	}
	if colon < 0 {
		return s, 0, nil
	}
	port, err = ParsePort(s[colon+1:])
	return s[:colon], port, err
}

// ParsePort reads a port as decimal digits without sign and leading zeros, 1 to
// 65535.
func ParsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] < '1' || s[0] > '9' {
		return 0, errors.New("saw no port after the last colon, want a number from 1 to 65535 (and an IPv6 address in brackets before it)")
	}
	return uint16(n), nil
}

// String is the canonical form, which parses to the same rule.
func (r Rule) String() string {
	host := r.pattern.String()
	switch {
	case r.any:
		host = "*"
	case strings.Contains(host, ":") && (r.scheme != "" || r.port != 0):
		host = "[" + host + "]"
	}
	if r.scheme != "" {
		host = r.scheme + "://" + host
	}
	if r.port != 0 {
		host += ":" + strconv.Itoa(int(r.port))
	}
	return host
}

// Scheme is the rule's scheme, "" where it stands for the policy's.
func (r Rule) Scheme() string { return r.scheme }

// Port is the rule's port, 0 where it stands for the policy's.
func (r Rule) Port() uint16 { return r.port }

// IsIP tells whether the rule names an address, which only the host's own
// configuration may allow.
func (r Rule) IsIP() bool { return r.pattern.IsIP() }

// IsAny tells whether the rule is for every name.
func (r Rule) IsAny() bool { return r.any }

// Match tells whether the rule speaks of a host, on whatever port.
func (r Rule) Match(h Host) bool {
	if r.any {
		return h.name != ""
	}
	return r.pattern.match(h)
}

func (p Pattern) match(h Host) bool {
	switch p.kind {
	case kindName:
		return h.name == p.name
	case kindBelow:
		return strings.HasSuffix(h.name, "."+p.name)
	case kindIP:
		return h.IsIP() && h.addr.String() == p.name
	case kindNone:
	}
	return false
}

// Covers tells whether everything that q allows is allowed by r too. Schemes
// and ports are what r stands for where it names none; q is to stand for these
// or fewer.
func (r Rule) Covers(q Rule, schemes []string, ports []uint16) bool {
	host := r.pattern.Covers(q.pattern) || r.any && (q.any || q.pattern.kind == kindName || q.pattern.kind == kindBelow)
	scheme := r.scheme == q.scheme || r.scheme == "" && q.scheme != SchemeTCP && slices.Contains(schemes, q.scheme)
	return host && scheme && (r.port == q.port || r.port == 0 && slices.Contains(ports, q.port))
}

// MarshalText is the form that the processes hand to each other.
func (r Rule) MarshalText() ([]byte, error) {
	if r == (Rule{}) {
		return nil, errors.New("a rule that is none")
	}
	return []byte(r.String()), nil
}

// UnmarshalText takes the canonical form only.
func (r *Rule) UnmarshalText(text []byte) error {
	got, err := ParseRule(string(text))
	if err == nil && got.String() != string(text) {
		err = errors.New("not in its canonical form")
	}
	if err != nil {
		return fmt.Errorf("rule: %w", err)
	}
	*r = got
	return nil
}
