package egress

import (
	"slices"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// SchemeTunnel is what a CONNECT asks for: TLS, or any bytes where a rule for
// tcp names the very host and port. [Decision.Scheme] says which.
const SchemeTunnel = "tunnel"

// Request is what a program wants to connect to.
type Request struct {
	Scheme string // one of the schemes, or SchemeTunnel
	Host   Host
	Port   uint16
	Kind   Kind // how it came; it is for the audit and decides nothing
}

// Decision is the answer, and what it was made by.
type Decision struct {
	Allow bool `json:"allow"`
	// Scheme is what the connection must turn out to be, where it is allowed.
	Scheme string `json:"scheme,omitempty"`
	// Rule is the entry that decided, "" where none matched, and where the mode
	// proxy lists no hosts.
	Rule string `json:"rule,omitempty"`
	// Code and Reason say why not. Neither repeats what was asked for.
	Code   errcode.Code `json:"code,omitempty"`
	Reason string       `json:"reason,omitempty"`
}

func denied(code errcode.Code, rule, reason string) Decision {
	return Decision{Rule: rule, Code: code, Reason: reason}
}

// Decide says whether a connection may be tried. The addresses that the name
// leads to are for [CheckAddr], once they are known.
func Decide(p Policy, q Request) Decision {
	if d, settled := p.decideMode(q); settled {
		return d
	}
	if q.Scheme == SchemeTunnel {
		// A server may speak first, so that what comes cannot be waited for: a
		// rule for tcp makes it one, whatever else there is.
		q.Scheme = SchemeTCP
		if !p.allowed(q).Allow {
			q.Scheme = SchemeHTTPS
		}
	}
	for _, r := range p.Deny {
		if r.Match(q.Host) && r.denies(q) {
			return denied(errcode.EgressHostDenied, r.String(), "the policy denies this host")
		}
	}
	return p.allowed(q)
}

// decideMode settles what no list is needed for.
func (p Policy) decideMode(q Request) (d Decision, settled bool) {
	known := []string{SchemeTunnel, SchemeHTTPS, SchemeHTTP, SchemeTCP}
	switch {
	case p.Mode == ModeUnrestricted:
		return Decision{Allow: true, Scheme: q.Scheme}, true
	case p.Mode != ModeAllowlist && p.Mode != ModeProxy:
		return denied(errcode.EgressHostDenied, "", "the policy allows no network"), true
	case q.Host == Host{} || q.Port == 0 || !slices.Contains(known, q.Scheme):
		return denied(errcode.EgressBadRequest, "", "the request names no host, port or scheme that there is"), true
	}
	return Decision{}, false
}

// denies is without the policy's ports and schemes: a deny rule means all that
// it does not narrow. Any bytes are tcp, and tcp may be any of the others.
func (r Rule) denies(q Request) bool {
	scheme := r.scheme == "" || r.scheme == q.Scheme || r.scheme == SchemeTCP || q.Scheme == SchemeTCP
	return scheme && (r.port == 0 || r.port == q.Port)
}

// allowed looks for a rule, and says how near the nearest came.
func (p Policy) allowed(q Request) Decision {
	port, host := false, false
	for _, r := range p.effective() {
		if !r.Match(q.Host) {
			continue
		}
		host = true
		if !p.onPort(r, q.Port) {
			continue
		}
		port = true
		if p.inScheme(r, q.Scheme) {
			return Decision{Allow: true, Scheme: q.Scheme, Rule: p.ruleText(r)}
		}
	}
	switch {
	case !host:
		return denied(errcode.EgressHostDenied, "", "no rule of the policy allows this host")
	case !port:
		return denied(errcode.EgressPortDenied, "", "the policy allows this host, but not this port")
	}
	return denied(errcode.EgressSchemeDenied, "", "the policy allows this host and port, but not this scheme")
}

func (p Policy) onPort(r Rule, port uint16) bool {
	return r.port == port || r.port == 0 && slices.Contains(p.Ports, port)
}

func (p Policy) inScheme(r Rule, scheme string) bool {
	return r.scheme == scheme || r.scheme == "" && scheme != SchemeTCP && slices.Contains(p.Schemes, scheme)
}

// effective is the list of what is allowed. The mode proxy without one allows
// every name, through the upstream proxy (S-065).
func (p Policy) effective() []Rule {
	if p.Mode == ModeProxy && len(p.Allow) == 0 {
		return []Rule{{any: true}}
	}
	return p.Allow
}

func (p Policy) ruleText(r Rule) string {
	if len(p.Allow) == 0 {
		return ""
	}
	return r.String()
}

// DecideName says whether a name may be looked up at all: whether there is a
// port on which [Decide] would allow it in some scheme. It is for the stub
// resolver, which does not know yet what the address is wanted for.
func DecideName(p Policy, h Host) Decision {
	speaking := slices.DeleteFunc(slices.Clone(p.effective()), func(r Rule) bool { return !r.Match(h) })
	best := Decide(p, Request{Scheme: SchemeTunnel, Host: h, Port: 1})
	for _, port := range p.portsOf(speaking) {
		for _, scheme := range []string{SchemeTunnel, SchemeHTTP} {
			d := Decide(p, Request{Scheme: scheme, Host: h, Port: port})
			if d.Allow {
				return d
			}
			best = d
		}
	}
	return best
}

// AllPorts are the ports that any rule could allow, sorted: those on which the
// transparent path listens.
func (p Policy) AllPorts() []uint16 {
	if p.Mode != ModeAllowlist && p.Mode != ModeProxy {
		return nil
	}
	return p.portsOf(p.effective())
}

func (p Policy) portsOf(rules []Rule) []uint16 {
	var ports []uint16
	for _, r := range rules {
		if r.port != 0 {
			ports = append(ports, r.port)
		} else {
			ports = append(ports, p.Ports...)
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}
