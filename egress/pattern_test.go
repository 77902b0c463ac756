package egress_test

import (
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/egress"
)

// Proves: S-068, K-32, C-01, A-013.
func TestParsePattern(t *testing.T) {
	long := strings.Repeat("a", 63)
	tests := []struct{ in, want string }{
		{"example.com", "example.com"},
		{"Example.COM", "example.com"},
		{"example.com.", "example.com"},
		{"*.example.com", "*.example.com"},
		{"*.EXAMPLE.com.", "*.example.com"},
		{"localhost", "localhost"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"XN--BCHER-KVA.example", "xn--bcher-kva.example"},
		{"bücher.example", "xn--bcher-kva.example"},
		{"BÜCHER.example", "xn--bcher-kva.example"},
		{"*.bücher.example", "*.xn--bcher-kva.example"},
		{"ｅｘａｍｐｌｅ.com", "example.com"},
		{"example。com", "example.com"},
		{"r3---sn-x.googlevideo.com", "r3---sn-x.googlevideo.com"},
		{"1.example.com", "1.example.com"},
		{"0x7f.example.com", "0x7f.example.com"},
		{"3com.example", "3com.example"},
		{long + "." + long + "." + long + "." + long[:61], long + "." + long + "." + long + "." + long[:61]},
		{"192.0.2.1", "192.0.2.1"},
		{"2001:DB8::1", "2001:db8::1"},
		{"[2001:db8:0:0::1]", "2001:db8::1"},
		{"*.city.kawasaki.jp", "*.city.kawasaki.jp"}, // an exception of the list
		{"*.amazonaws.com", "*.amazonaws.com"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			p, err := egress.ParsePattern(tt.in)
			if err != nil || p.String() != tt.want {
				t.Fatalf("got %q, %v, want %q", p, err, tt.want)
			}
			again, err := egress.ParsePattern(p.String())
			if err != nil || again != p {
				t.Errorf("its own form: got %q, %v, want the same", again, err)
			}
		})
	}
}

// Proves: K-32.
func TestParsePatternRefuses(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", "0 bytes"},
		{".", "0 bytes"},
		{"*.", "0 bytes"},
		{"example.com..", "label of 0 bytes"},
		{".example.com", "label of 0 bytes"},
		{"a..b", "label of 0 bytes"},
		{strings.Repeat("a", 64) + ".com", "label of 64 bytes"},
		{strings.Repeat("a.", 127) + "aa", "256 bytes"},
		{"*", "whole first label"},
		{"*example.com", "whole first label"},
		{"a.*.com", "whole first label"},
		{"*.*.com", "whole first label"},
		{"**.example.com", "whole first label"},
		{"exam*.com", "whole first label"},
		{"*.com", "public suffix"},
		{"*.localhost", "public suffix"},
		{"*.co.uk", "public suffix"},
		{"*.github.io", "public suffix"},
		{"*.compute.amazonaws.com", "public suffix"},
		{"*.kawasaki.jp", "public suffix"},
		{"*.x.kawasaki.jp", "public suffix"},
		{"*.xn--p1ai", "public suffix"},
		{"*.рф", "public suffix"},
		{"a_b.example", "no letter, digit or hyphen"},
		{"a b.example", "no letter, digit or hyphen"},
		{"a\x00.example", "no letter, digit or hyphen"},
		{"evil\x00.example.com", "no letter, digit or hyphen"},
		{"a/b.example", "no letter, digit or hyphen"},
		{"a\\b.example", "no letter"},
		{"a@b.example", "no letter"},
		{"a%2e.example", "no letter"},
		{"a?b.example", "no letter"},
		{"http://a.example", "colon or brackets"},
		{" a.example", "no letter"},
		{"a.example\n", "no letter"},
		{"~a.example", "no letter"},
		{"-a.example", "hyphen"},
		{"a-.example", "hyphen"},
		{"a.-", "hyphen"},
		{"a.example:443", "colon or brackets"},
		{"[a.example]", "colon or brackets"},
		{"[192.0.2.1]", "colon or brackets"},
		{"[2001:db8::1", "open bracket"},
		{"[[2001:db8::1]]", "colon or brackets"},
		{"[2001:db8::1]:443", "open bracket"},
		{"2001:db8::1]", "colon or brackets"},
		{"fe80::1%eth0", "zone"},
		{"[fe80::1%25eth0]", "zone"},
		{"::ffff:192.0.2.1", "IPv4 address in IPv6 form"},
		{"::ffff:c000:201", "IPv4 address in IPv6 form"},
		{"127.1", "ends in a number"},
		{"127", "ends in a number"},
		{"2130706433", "ends in a number"},
		{"0x7f000001", "ends in a number"},
		{"0x7f.1", "ends in a number"},
		{"0177.0.0.1", "ends in a number"},
		{"127.0.0.01", "ends in a number"},
		{"127.0.0.1.", "ends in a number"},
		{"1.2.3.4.5", "ends in a number"},
		{"256.0.0.1", "ends in a number"},
		{"a.0x", "ends in a number"},
		{"example.0X7f", "ends in a number"},
		{"example.1", "ends in a number"},
		{"1.2.3.*", "whole first label"},
		{"*.192.0.2.1", "no subdomains"},
		{"*.[2001:db8::1]", "no subdomains"},
		{"*.2001:db8::1", "no subdomains"},
		{"１２７.0.0.1", "ends in a number"},
		{"127.0.0.１", "address in another script"},
		{"127。0。0。1", "address in another script"},
		{"①②⑦.0.0.①", "address in another script"},
		{"xn--a.example", "internationalized"},
		{"xn--.example", "internationalized"},
		{"xn--bücher.example", "internationalized"},
		{"a\u200db.example", "internationalized"},
		{"xn--example-.com", "internationalized"},
		{"\xff.example", "internationalized"},
		{"\ufffd.example", "internationalized"},
		{"xn--zn7c.example", "internationalized"},
		{"אa.example", "internationalized"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			p, err := egress.ParsePattern(tt.in)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %q, %v, want an error with %q", p, err, tt.want)
			}
			if p != (egress.Pattern{}) {
				t.Errorf("got %q beside the error", p)
			}
		})
	}
}

// Proves: S-068, K-32, C-01.
func TestCovers(t *testing.T) {
	tests := []struct {
		p, q string
		want bool
	}{
		{"example.com", "example.com", true},
		{"example.com", "EXAMPLE.com.", true},
		{"example.com", "a.example.com", false},
		{"example.com", "*.example.com", false},
		{"*.example.com", "a.example.com", true},
		{"*.example.com", "b.a.example.com", true},
		{"*.example.com", "*.example.com", true},
		{"*.example.com", "*.a.example.com", true},
		{"*.a.example.com", "*.example.com", false},
		{"*.example.com", "example.com", false},
		{"*.example.com", "evilexample.com", false},
		{"*.example.com", "example.com.evil.org", false},
		{"*.example.com", "*.evilexample.com", false},
		{"example.com", "evilexample.com", false},
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"2001:db8::1", "[2001:DB8:0::1]", true},
		{"*.example.com", "192.0.2.1", false},
	}
	for _, tt := range tests {
		t.Run(tt.p+" covers "+tt.q, func(t *testing.T) {
			if got := pattern(t, tt.p).Covers(pattern(t, tt.q)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	var zero egress.Pattern
	if zero.Covers(zero) || zero.Covers(pattern(t, "a.example")) || pattern(t, "*.example.com").Covers(zero) {
		t.Error("the zero pattern covers, or is covered")
	}
	if !pattern(t, "192.0.2.1").IsIP() || !pattern(t, "::1").IsIP() || pattern(t, "a.example").IsIP() || pattern(t, "*.example.com").IsIP() {
		t.Error("IsIP: addresses and names are mixed up")
	}
}

func pattern(t *testing.T, s string) egress.Pattern {
	t.Helper()
	p, err := egress.ParsePattern(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// FuzzParsePattern: no panic, exactly one of pattern and error, and one form.
func FuzzParsePattern(f *testing.F) {
	for _, s := range []string{"*.Example.com.", "bücher.example", "[2001:db8::1]", "127.1", "xn--bcher-kva.example", "ﬀ.example", "*.co.uk"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := egress.ParsePattern(s)
		if (p == egress.Pattern{}) == (err == nil) {
			t.Fatalf("got %q and %v, want exactly one", p, err)
		}
		if err != nil {
			return
		}
		text := p.String()
		if strings.ToLower(text) != text || strings.ContainsAny(text, " \t\n\x00/@%\\") || strings.HasSuffix(text, ".") {
			t.Errorf("%q: %q is no canonical form", s, text)
		}
		again, err := egress.ParsePattern(text)
		if err != nil || again != p || !p.Covers(again) {
			t.Errorf("%q: its form %q gives %q, %v", s, text, again, err)
		}
	})
}
