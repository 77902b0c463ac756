package egress_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/egress"
)

// Proves: S-068, E-065: one form for each host, and none for what two readers
// take for different ones.
func TestParseHost(t *testing.T) {
	tests := []struct{ in, want string }{
		{"example.com", "example.com"},
		{"EXAMPLE.com.", "example.com"},
		{"bücher.example", "xn--bcher-kva.example"},
		{"localhost", "localhost"},
		{"fc2.com", "fc2.com"},
		{"fe80.example", "fe80.example"},
		{"10.example", "10.example"},
		{"127.0.0.1.nip.io", "127.0.0.1.nip.io"},
		{"192.0.2.1", "192.0.2.1"},
		{"8.8.8.8", "8.8.8.8"},
		{"[2001:DB8::1]", "2001:db8::1"},
		{"2001:db8::1", "2001:db8::1"},
		{"[::1]", "::1"},
	}
	for _, tt := range tests {
		h, err := egress.ParseHost(tt.in)
		if err != nil || h.String() != tt.want {
			t.Errorf("%q: got %q, %v, want %q", tt.in, h, err, tt.want)
		}
		if _, err := netip.ParseAddr(tt.want); (err == nil) != h.IsIP() || h.IsIP() != (h.Name() == "") {
			t.Errorf("%q: got address %v and name %q", tt.in, h.IsIP(), h.Name())
		}
	}
}

// refusedHosts are the spellings of E-065, G-06 and the issue that have no one
// meaning: the resolver of one program takes them for an address, that of
// another for a name, or for another name.
var refusedHosts = []string{
	// inet_aton: short, octal, hexadecimal, integer (E-065).
	"127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0x7f.1", "017700000001", "0177.0.0.1", "0",
	"127.0.0.01", "08.0.0.1", "00.0.0.1", "127.0.0.1.", "10.1", "0xa.0.0.1", "0XA9FEA9FE", "169.254.43518", "3232235777",
	"1.2.3.4.5", "256.0.0.1", "0x", "a.0x1", "127.0.0.0x1", "1.2.3", "8.8", "+1.2.3.4", "1.2.3.4 ", " 1.2.3.4", "1.2.3.4\t",
	// Mapped and bracketed forms.
	"::ffff:127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:0a00:0001]", "[127.0.0.1]", "[example.com]",
	"[fe80::1%25eth0]", "fe80::1%eth0", "[::1", "::1]", "[]", "[::1]]", "[[::1]]", ":", "::g",
	// Digits of other scripts.
	"１２７.0.0.1", "①②⑦.0.0.①", "127。0。0。1", "127．0．0．1", "٠.٠.٠.٠",
	// Dots, NUL, bytes that are no letter, digit or hyphen.
	"", ".", "..", "example.com..", ".example.com", "a..b", "example.com\x00", "example.com\x00.evil.org", "exa\x00mple.com",
	"example.com\n", "example.com\r", "exam ple.com", "example.com/", "example.com#", "example.com?", "user@example.com",
	"example.com:443", "https://example.com", "ex%61mple.com", "example\\.com", "a_b.example", "-a.example", "a-.example", "\x7fa.example",
	// International names that are not in one form, or cannot be looked up.
	"xn--a.example", "xn--bücher.example", "a\u200db.example", "\xff.example", "\u202eexample.com", "xn--.example",
	// Too long.
	strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 127) + "a", strings.Repeat("a", 255), strings.Repeat("abcdefg.", 31) + "abcdefg",
	// No host is a wildcard.
	"*", "*.example.com", "*.", "a*.example",
}

// Proves: E-065, G-06.
func TestParseHostRefuses(t *testing.T) {
	for _, s := range refusedHosts {
		h, err := egress.ParseHost(s)
		if err == nil || (h != egress.Host{}) {
			t.Errorf("%q: got %q, %v, want an error and no host", s, h, err)
		}
	}
}

// Proves: S-068, C-01: a homograph is another host, or none.
func TestHomographs(t *testing.T) {
	want := host(t, "paypal.com")
	for _, s := range []string{"pаypal.com", "раураl.com", "paypa1.com", "paypal.com.evil.org", "ρaypal.com", "paypal‐.com", "xn--pypal-4ve.com"} {
		if h, err := egress.ParseHost(s); err == nil && h == want {
			t.Errorf("%q is taken for %s", s, want)
		}
	}
	for _, s := range []string{"ＰＡＹＰＡＬ.com", "paypal。com", "PayPal.COM."} {
		if h, err := egress.ParseHost(s); err == nil && h != want {
			t.Errorf("%q: got %s, want it to be %s or refused, as a resolver's library maps it", s, h, want)
		}
	}
}

func TestParseAuthority(t *testing.T) {
	tests := []struct {
		in        string
		otherwise uint16
		want      string
		port      uint16
	}{
		{"example.com:443", 0, "example.com", 443},
		{"Example.com.:443", 0, "example.com", 443},
		{"example.com", 80, "example.com", 80},
		{"[2001:db8::1]:443", 0, "2001:db8::1", 443},
		{"[2001:db8::1]", 80, "2001:db8::1", 80},
		{"192.0.2.1:65535", 0, "192.0.2.1", 65535},
	}
	for _, tt := range tests {
		if h, port, err := egress.ParseAuthority(tt.in, tt.otherwise); err != nil || h.String() != tt.want || port != tt.port {
			t.Errorf("%q: got %q, %d, %v, want %q, %d", tt.in, h, port, err, tt.want, tt.port)
		}
	}
	for _, s := range []string{
		"", ":443", "example.com", "example.com:", "example.com:0", "example.com:65536", "example.com:0443", "example.com:+443",
		"example.com:443:443", "example.com: 443", "example.com:４４３", "example.com:0x1bb", "2001:db8::1:443", "2001:db8::1", "[2001:db8::1]",
		"[2001:db8::1]443", "[2001:db8::1]:", "[example.com]:443", "http://example.com:443", "example.com:443/", "a@example.com:443", "*.example.com:443",
	} {
		if h, port, err := egress.ParseAuthority(s, 0); err == nil {
			t.Errorf("%q: got %q, %d, want an error", s, h, port)
		}
	}
}

// FuzzParseHost: a value or an error, in the one form, and errors that repeat
// nothing of what a hostile program has sent.
func FuzzParseHost(f *testing.F) {
	for _, s := range refusedHosts {
		f.Add(s)
	}
	for _, s := range []string{"Example.com.", "bücher.example", "[2001:db8::1]", "192.0.2.1", "ﬀ.example", "faß.de"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := egress.ParseHost(s)
		if (h == egress.Host{}) == (err == nil) {
			t.Fatalf("%q: got %q and %v, want exactly one", s, h, err)
		}
		if err != nil {
			return
		}
		text := h.String()
		if again, err := egress.ParseHost(text); err != nil || again != h {
			t.Errorf("%q: its form %q gives %q, %v", s, text, again, err)
		}
		if strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.:") != "" || strings.HasSuffix(text, ".") {
			t.Errorf("%q: %q is no canonical form", s, text)
		}
		if _, err := netip.ParseAddr(text); (err == nil) != h.IsIP() {
			t.Errorf("%q: address %v, but its form %q is read as one: %v", s, h.IsIP(), text, err == nil)
		}
	})
}
