package egress_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/egress"
)

// Proves: S-068, C-01, A-012.
func TestParseRule(t *testing.T) {
	tests := []struct{ in, want string }{
		{"Example.com.", "example.com"},
		{"*.example.com", "*.example.com"},
		{"*", "*"},
		{"*:8443", "*:8443"},
		{"https://*", "https://*"},
		{"HTTPS://Example.com", "https://example.com"},
		{"http://example.com:8080", "http://example.com:8080"},
		{"example.com:443", "example.com:443"},
		{"tcp://db.example:5432", "tcp://db.example:5432"},
		{"tcp://192.0.2.1:22", "tcp://192.0.2.1:22"},
		{"192.0.2.1", "192.0.2.1"},
		{"192.0.2.1:443", "192.0.2.1:443"},
		{"2001:DB8::1", "2001:db8::1"},
		{"[2001:db8::1]", "2001:db8::1"},
		{"[2001:db8::1]:443", "[2001:db8::1]:443"},
		{"https://[2001:db8::1]", "https://[2001:db8::1]"},
		{"tcp://[2001:db8::1]:22", "tcp://[2001:db8::1]:22"},
		{"https://*.bücher.example:443", "https://*.xn--bcher-kva.example:443"},
	}
	for _, tt := range tests {
		r, err := egress.ParseRule(tt.in)
		if err != nil || r.String() != tt.want {
			t.Errorf("%q: got %q, %v, want %q", tt.in, r, err, tt.want)
			continue
		}
		if again := rule(t, r.String()); again != r {
			t.Errorf("%q: its own form gives %q", tt.in, again)
		}
	}
}

// Proves: S-066, S-068, K-32.
func TestParseRuleRefuses(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", "0 bytes"},
		{"ftp://example.com", "https, http or tcp"},
		{"socks5://example.com:1080", "https, http or tcp"},
		{"://example.com", "https, http or tcp"},
		{"https://", "0 bytes"},
		{"https://https://example.com", "no port"},
		{"https://example.com/", "no letter"},
		{"https://example.com:443/", "no port"},
		{"https://user@example.com", "no letter"},
		{"https://user:pw@example.com", "no port"},
		{"example.com:", "no port"},
		{"example.com:0", "no port"},
		{"example.com:65536", "no port"},
		{"example.com:080", "no port"},
		{"example.com:*", "no port"},
		{"example.com:+80", "no port"},
		{"example.com:80-90", "no port"},
		{"tcp://example.com", "tcp://host:port"},
		{"tcp://*.example.com:22", "tcp://host:port"},
		{"tcp://*:22", "tcp://host:port"},
		{"https://2001:db8::1", "colon or brackets"},
		{"https://[2001:db8::1", "open bracket"},
		{"[2001:db8::1]x", "open bracket"},
		{"*.com", "public suffix"},
		{"*.co.uk:443", "public suffix"},
		{"https://*.github.io", "public suffix"},
		{"**", "whole first label"},
		{"https://127.1", "ends in a number"},
		{"0x7f000001:80", "ends in a number"},
		{"10.0.0.0/8", "no letter"},
		{"-example.com", "hyphen"},
		{"!example.com", "no letter"},
		{"https:example.com", "no port"},
		{" example.com", "no letter"},
	}
	for _, tt := range tests {
		r, err := egress.ParseRule(tt.in)
		if err == nil || !strings.Contains(err.Error(), tt.want) || (r != egress.Rule{}) {
			t.Errorf("%q: got %q, %v, want no rule and an error with %q", tt.in, r, err, tt.want)
		}
	}
}

// Proves: S-068, C-01, A-012.
func TestRuleCovers(t *testing.T) {
	tests := []struct {
		r, q string
		want bool
	}{
		{"example.com", "example.com", true},
		{"*.example.com", "a.example.com", true},
		{"*.example.com", "example.com", false},
		{"*.example.com", "evilexample.com", false},
		{"example.com", "example.com:443", true},
		{"example.com", "example.com:8443", false},
		{"example.com:443", "example.com", false},
		{"example.com:443", "example.com:443", true},
		{"example.com", "https://example.com", true},
		{"example.com", "tcp://example.com:443", false},
		{"tcp://example.com:443", "tcp://example.com:443", true},
		{"tcp://example.com:443", "example.com:443", false},
		{"tcp://example.com:22", "tcp://example.com:23", false},
		{"https://example.com", "example.com", false},
		{"https://example.com", "http://example.com", false},
		{"https://*.example.com", "https://a.example.com:443", true},
		{"*", "anything.example", true},
		{"*", "*.anything.example", true},
		{"*", "*", true},
		{"*", "192.0.2.1", false},
		{"*", "tcp://a.example:443", false},
		{"*:8443", "a.example:8443", true},
		{"*:8443", "a.example", false},
		{"a.example", "*", false},
		{"*.example.com", "*", false},
		{"192.0.2.1", "192.0.2.1:80", true},
		{"192.0.2.1", "192.0.2.2", false},
	}
	for _, tt := range tests {
		if got := rule(t, tt.r).Covers(rule(t, tt.q), []string{"http", "https"}, []uint16{80, 443}); got != tt.want {
			t.Errorf("%s covers %s: got %v, want %v", tt.r, tt.q, got, tt.want)
		}
	}
	if rule(t, "a.example").Covers(rule(t, "http://a.example"), []string{"https"}, nil) {
		t.Error("a rule without a scheme covers one that is not the policy's")
	}
	var zero egress.Rule
	if zero.Covers(zero, nil, nil) || zero.Match(egress.Host{}) || zero.Match(host(t, "a.example")) || rule(t, "*").Match(egress.Host{}) {
		t.Error("the zero rule covers or matches, or the zero host is matched")
	}
}

func TestRuleText(t *testing.T) {
	data, err := json.Marshal(rules(t, "HTTPS://A.example", "*"))
	if err != nil || string(data) != `["https://a.example","*"]` {
		t.Errorf("got %s, %v", data, err)
	}
	if _, err := json.Marshal([]egress.Rule{{}}); err == nil {
		t.Error("the zero rule has a text form")
	}
	for _, s := range []string{`["A.example"]`, `[""]`, `["a.example."]`, `["a.example:0443"]`, `[7]`} {
		var got []egress.Rule
		if err := json.Unmarshal([]byte(s), &got); err == nil {
			t.Errorf("%s: got %v, want an error", s, got)
		}
	}
}

// FuzzParseRule: a value or an error, one form, and a rule covers itself.
func FuzzParseRule(f *testing.F) {
	for _, s := range []string{
		"*", "*.Example.com.", "https://a.example:443", "tcp://[2001:db8::1]:22", "2001:db8::1", "a.example:80", "[::1]:1",
		"https://*.co.uk", "tcp://*:1", "http://127.1:80", "a:b:c", "://", "https://bücher.example", "[a]:1", "]:1", "a]:1", "[:1", "*:*",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := egress.ParseRule(s)
		if (r == egress.Rule{}) == (err == nil) {
			t.Fatalf("%q: got %q and %v, want exactly one", s, r, err)
		}
		if err != nil {
			return
		}
		again, err := egress.ParseRule(r.String())
		if err != nil || again != r || !r.Covers(again, nil, nil) {
			t.Errorf("%q: its form %q gives %q, %v", s, r, again, err)
		}
		if p, err := egress.ParsePattern(s); err == nil && p.String() != r.String() {
			t.Errorf("%q: the pattern %q is another rule, %q", s, p, r)
		}
	})
}
