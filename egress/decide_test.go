package egress_test

import (
	"testing"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
)

const (
	ok       = errcode.Code("")
	noHost   = errcode.EgressHostDenied
	noPort   = errcode.EgressPortDenied
	noScheme = errcode.EgressSchemeDenied
)

// ask decides scheme://host:port under a policy.
func ask(t testing.TB, p egress.Policy, scheme, name string, port uint16) egress.Decision {
	t.Helper()
	return egress.Decide(p, egress.Request{Scheme: scheme, Host: host(t, name), Port: port, Kind: egress.KindProxy})
}

// Proves: S-068, C-01, E-064, A-013: the names that a rule is for, and those
// that look like them.
func TestDecideNames(t *testing.T) {
	tests := []struct {
		rule, host string
		want       errcode.Code
	}{
		{"example.com", "example.com", ok},
		{"example.com", "EXAMPLE.com.", ok},
		{"example.com", "a.example.com", noHost},
		{"example.com", "evilexample.com", noHost},
		{"example.com", "example.com.evil.org", noHost},
		{"example.com", "example.co", noHost},
		{"example.com", "example-com.org", noHost},
		{"*.example.com", "a.example.com", ok},
		{"*.example.com", "b.a.example.com", ok},
		{"*.example.com", "example.com", noHost},
		{"*.example.com", "evilexample.com", noHost},
		{"*.example.com", "a.example.com.evil.org", noHost},
		{"*.example.com", "a.example.org", noHost},
		{"bücher.example", "xn--bcher-kva.example", ok},
		{"localhost", "localhost", ok},
		{"localhost", "127.0.0.1", noHost}, // unlike E-064: an address is no name
		{"192.0.2.1", "192.0.2.1", ok},
		{"192.0.2.1", "192.0.2.11", noHost},
		{"[2001:db8::1]", "2001:db8:0::1", ok},
		{"*", "anything.example", ok},
		{"*", "192.0.2.1", noHost},
		{"*", "2001:db8::1", noHost},
	}
	for _, tt := range tests {
		d := ask(t, allowlist(t, tt.rule), egress.SchemeTunnel, tt.host, 443)
		if d.Code != tt.want || d.Allow != (tt.want == ok) || d.Allow == (d.Reason != "") {
			t.Errorf("%s, asked for %s: got %+v, want code %q", tt.rule, tt.host, d, tt.want)
		}
		if d.Allow && d.Rule != rule(t, tt.rule).String() {
			t.Errorf("%s, asked for %s: got rule %q", tt.rule, tt.host, d.Rule)
		}
	}
}

// Proves: S-069, S-071, S-079: ports and schemes, those of the policy and those
// of a rule.
func TestDecidePortsAndSchemes(t *testing.T) {
	p := allowlist(t, "plain.example", "https://tls.example", "http://clear.example", "high.example:8443", "tcp://db.example:5432", "tcp://both.example:443", "both.example")
	p.Schemes = []string{"https"}
	tests := []struct {
		scheme, host string
		port         uint16
		code         errcode.Code
		is           string
	}{
		{"tunnel", "plain.example", 443, ok, "https"},
		{"tunnel", "plain.example", 80, ok, "https"},
		{"tunnel", "plain.example", 8443, noPort, ""},
		{"http", "plain.example", 80, noScheme, ""},
		{"https", "plain.example", 443, ok, "https"},
		{"tcp", "plain.example", 443, noScheme, ""},
		{"tunnel", "tls.example", 443, ok, "https"},
		{"http", "tls.example", 80, noScheme, ""},
		{"http", "clear.example", 80, ok, "http"},
		{"tunnel", "clear.example", 443, noScheme, ""},
		{"tunnel", "high.example", 8443, ok, "https"},
		{"tunnel", "high.example", 443, noPort, ""},
		{"tunnel", "db.example", 5432, ok, "tcp"},
		{"https", "db.example", 5432, noScheme, ""},
		{"http", "db.example", 5432, noScheme, ""},
		{"tunnel", "db.example", 443, noPort, ""},
		{"tunnel", "both.example", 443, ok, "tcp"},
		{"tunnel", "both.example", 80, ok, "https"},
		{"tunnel", "other.example", 443, noHost, ""},
		{"ftp", "plain.example", 443, errcode.EgressBadRequest, ""},
		{"", "plain.example", 443, errcode.EgressBadRequest, ""},
		{"tunnel", "plain.example", 0, errcode.EgressBadRequest, ""},
	}
	for _, tt := range tests {
		if d := ask(t, p, tt.scheme, tt.host, tt.port); d.Code != tt.code || d.Scheme != tt.is || d.Allow != (tt.code == ok) {
			t.Errorf("%s to %s:%d: got %+v, want code %q and scheme %q", tt.scheme, tt.host, tt.port, d, tt.code, tt.is)
		}
	}
	if d := egress.Decide(p, egress.Request{Scheme: "tunnel", Port: 443}); d.Allow || d.Code != errcode.EgressBadRequest {
		t.Errorf("no host: got %+v", d)
	}
}

// Proves: E-060: deny wins, and narrows as far as it says.
func TestDenyWins(t *testing.T) {
	tests := []struct {
		deny, scheme, host string
		port               uint16
		want               bool
	}{
		{"a.example", "tunnel", "a.example", 443, false},
		{"a.example", "tunnel", "b.example", 443, true},
		{"*.a.example", "tunnel", "a.example", 443, true},
		{"*.a.example", "tunnel", "x.a.example", 443, false},
		{"*", "tunnel", "a.example", 443, false},
		{"a.example:443", "tunnel", "a.example", 443, false},
		{"a.example:443", "tunnel", "a.example", 80, true},
		{"http://a.example", "tunnel", "a.example", 443, true},
		{"http://a.example", "http", "a.example", 80, false},
		{"https://a.example", "tunnel", "a.example", 443, false},
		{"https://a.example", "http", "a.example", 80, true},
		{"tcp://a.example:443", "tunnel", "a.example", 443, false}, // any bytes are TLS too
		{"http://db.example", "tunnel", "db.example", 5432, false}, // and tcp may be http
		{"db.example:5433", "tunnel", "db.example", 5432, true},
	}
	for _, tt := range tests {
		p := allowlist(t, "*", "tcp://db.example:5432")
		p.Deny = rules(t, tt.deny)
		d := ask(t, p, tt.scheme, tt.host, tt.port)
		if d.Allow != tt.want {
			t.Errorf("deny %s, %s to %s:%d: got %+v, want %v", tt.deny, tt.scheme, tt.host, tt.port, d, tt.want)
		}
		if !d.Allow && (d.Rule != tt.deny || d.Code != noHost) {
			t.Errorf("deny %s: got rule %q and code %q", tt.deny, d.Rule, d.Code)
		}
	}
}

// Proves: S-060, S-061, S-062, S-063, S-064, S-065, E-060, E-062, A-011.
func TestDecideModes(t *testing.T) {
	tests := []struct {
		mode  egress.Mode
		allow []string
		want  bool
	}{
		{egress.ModeNone, []string{"a.example"}, false},
		{"", []string{"a.example"}, false},
		{"allow", []string{"a.example"}, false},
		{egress.ModeAllowlist, nil, false},
		{egress.ModeAllowlist, []string{"a.example"}, true},
		{egress.ModeProxy, []string{"b.example"}, false},
		{egress.ModeProxy, []string{"a.example"}, true},
		{egress.ModeProxy, nil, true},
		{egress.ModeUnrestricted, nil, true},
	}
	for _, tt := range tests {
		p := allowlist(t, tt.allow...)
		p.Mode = tt.mode
		if d := ask(t, p, egress.SchemeTunnel, "a.example", 443); d.Allow != tt.want {
			t.Errorf("mode %q, hosts %v: got %+v, want %v", tt.mode, tt.allow, d, tt.want)
		}
		if n := egress.DecideName(p, host(t, "a.example")); n.Allow != tt.want {
			t.Errorf("mode %q, hosts %v: name: got %+v, want %v", tt.mode, tt.allow, n, tt.want)
		}
	}
	p := allowlist(t)
	p.Mode = egress.ModeProxy
	for name, want := range map[string]bool{"192.0.2.1": false, "a.example": true} {
		if d := ask(t, p, egress.SchemeTunnel, name, 443); d.Allow != want || d.Rule != "" {
			t.Errorf("mode proxy without hosts, %s: got %+v, want %v and no rule", name, d, want)
		}
	}
	var zero egress.Policy
	if d := ask(t, zero, egress.SchemeTunnel, "a.example", 443); d.Allow {
		t.Errorf("the zero policy allows: %+v", d)
	}
}

func TestDecideName(t *testing.T) {
	p := allowlist(t, "a.example", "http://b.example", "tcp://db.example:5432", "x.example", "*.w.example:8443")
	p.Deny = rules(t, "x.example", "a.example:80")
	for name, want := range map[string]bool{
		"a.example": true, "b.example": true, "db.example": true, "x.example": false, "c.example": false, "w.example": false, "1.w.example": true,
	} {
		if d := egress.DecideName(p, host(t, name)); d.Allow != want {
			t.Errorf("%s: got %+v, want %v", name, d, want)
		}
	}
	if d := egress.DecideName(p, host(t, "x.example")); d.Rule != "x.example" {
		t.Errorf("x.example: got rule %q, want the one that denies it", d.Rule)
	}
	want := []uint16{80, 443, 5432, 8443}
	if got := p.AllPorts(); len(got) != len(want) || got[2] != want[2] || got[3] != want[3] {
		t.Errorf("ports: got %v, want %v", got, want)
	}
}
