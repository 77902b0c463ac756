package egress_test

import (
	"net/netip"
	"testing"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
)

// registries are the rows of the IANA special-purpose registries of IPv4 and
// IPv6, written down apart from the table that they test: the first and the last
// address of each block, and whether the registry says "globally reachable".
// Where it does and we refuse, why is in the last column.
var registries = []struct {
	first, last string
	global      bool
	stricter    string
}{
	{"0.0.0.0", "0.255.255.255", false, ""},
	{"10.0.0.0", "10.255.255.255", false, ""},
	{"100.64.0.0", "100.127.255.255", false, ""},
	{"127.0.0.0", "127.255.255.255", false, ""},
	{"169.254.0.0", "169.254.255.255", false, ""},
	{"172.16.0.0", "172.31.255.255", false, ""},
	{"192.0.0.0", "192.0.0.255", false, ""},
	{"192.0.0.0", "192.0.0.7", false, ""},
	{"192.0.0.8", "192.0.0.8", false, ""},
	{"192.0.0.9", "192.0.0.9", true, "the port control anycast address is the network's own router"},
	{"192.0.0.10", "192.0.0.10", true, "a TURN server there relays to anywhere"},
	{"192.0.0.170", "192.0.0.171", false, ""},
	{"192.0.2.0", "192.0.2.255", false, ""},
	{"192.31.196.0", "192.31.196.255", true, ""},
	{"192.52.193.0", "192.52.193.255", true, ""},
	{"192.88.99.0", "192.88.99.255", false, ""},
	{"192.88.99.2", "192.88.99.2", false, ""},
	{"192.168.0.0", "192.168.255.255", false, ""},
	{"192.175.48.0", "192.175.48.255", true, ""},
	{"198.18.0.0", "198.19.255.255", false, ""},
	{"198.51.100.0", "198.51.100.255", false, ""},
	{"203.0.113.0", "203.0.113.255", false, ""},
	{"240.0.0.0", "255.255.255.254", false, ""},
	{"255.255.255.255", "255.255.255.255", false, ""},
	{"224.0.0.0", "239.255.255.255", false, ""}, // multicast has a registry of its own

	{"::1", "::1", false, ""},
	{"::", "::", false, ""},
	{"::ffff:0.0.0.0", "::ffff:0.255.255.255", false, ""}, // mapped: what the IPv4 address is
	{"64:ff9b::a00:0", "64:ff9b::aff:ffff", false, ""},    // translated: the same
	{"64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", false, ""},
	{"100::", "100::ffff:ffff:ffff:ffff", false, ""},
	{"100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff", false, ""},
	{"2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", false, ""},
	{"2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", false, ""},
	{"2001:1::1", "2001:1::1", true, "the port control anycast address is the network's own router"},
	{"2001:1::2", "2001:1::2", true, "a TURN server there relays to anywhere"},
	{"2001:1::3", "2001:1::3", true, "a DNS-SD registry is the network's own"},
	{"2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", false, ""},
	{"2001:3::", "2001:3:ffff:ffff:ffff:ffff:ffff:ffff", true, ""},
	{"2001:4:112::", "2001:4:112:ffff:ffff:ffff:ffff:ffff", true, ""},
	{"2001:10::", "2001:1f:ffff:ffff:ffff:ffff:ffff:ffff", false, ""},
	{"2001:20::", "2001:2f:ffff:ffff:ffff:ffff:ffff:ffff", true, "ORCHIDs are names of hosts, to which nothing is routed"},
	{"2001:30::", "2001:3f:ffff:ffff:ffff:ffff:ffff:ffff", true, ""},
	{"2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", false, ""},
	{"2002:a00::", "2002:aff:ffff:ffff:ffff:ffff:ffff:ffff", false, ""}, // 6to4 of 10/8
	{"2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff", true, ""},
	{"3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", false, ""},
	{"5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, ""},
	{"fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, ""},
	{"fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, ""},
	{"fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, ""},
	{"ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, ""},
}

// Proves: G-06, S-070: every block of the registries, at both of its ends.
func TestClassifyRegistries(t *testing.T) {
	for _, row := range registries {
		for _, s := range []string{row.first, row.last} {
			want := row.global && row.stricter == ""
			if c := egress.Classify(netip.MustParseAddr(s)); (c == egress.ClassPublic) != want {
				t.Errorf("%s: got %v, want public %v", s, c, want)
			}
		}
	}
}

// Proves: E-065, G-06, S-070: what the seeds' tables knew, and what they let
// through.
func TestClassify(t *testing.T) {
	tests := map[string]egress.Class{
		"10.0.0.1": egress.ClassPrivate, "172.31.255.255": egress.ClassPrivate, "192.168.1.1": egress.ClassPrivate, "100.64.0.1": egress.ClassPrivate,
		"127.0.0.1": egress.ClassLoopback, "127.255.255.254": egress.ClassLoopback, "::1": egress.ClassLoopback,
		"0.0.0.0": egress.ClassUnspecified, "::": egress.ClassUnspecified, "0.1.2.3": egress.ClassReserved,
		"169.254.1.1": egress.ClassLinkLocal, "fe80::1": egress.ClassLinkLocal, "fe90::1": egress.ClassLinkLocal, "febf::1": egress.ClassLinkLocal,
		"fe80::1%eth0": egress.ClassLinkLocal, "::1%lo": egress.ClassLoopback,
		"fc00::1": egress.ClassPrivate, "fd12:3456::1": egress.ClassPrivate, "fec0::1": egress.ClassPrivate,
		"198.18.0.1": egress.ClassBenchmark, "198.19.255.255": egress.ClassBenchmark,
		"224.0.0.1": egress.ClassMulticast, "239.255.255.250": egress.ClassMulticast, "ff02::1": egress.ClassMulticast, "ff0e::1": egress.ClassMulticast,
		"240.0.0.1": egress.ClassReserved, "255.255.255.255": egress.ClassReserved, "192.88.99.1": egress.ClassReserved, "192.0.0.8": egress.ClassReserved,
		"3fff::1": egress.ClassReserved, "5f00::1": egress.ClassReserved, "4000::1": egress.ClassReserved, "::2": egress.ClassReserved,

		"169.254.169.254": egress.ClassMetadata, "168.63.129.16": egress.ClassMetadata, "100.100.100.200": egress.ClassMetadata,
		"169.254.170.2": egress.ClassMetadata, "169.254.170.23": egress.ClassMetadata, "192.0.0.192": egress.ClassMetadata,
		"fd00:ec2::254": egress.ClassMetadata, "fd00:ec2::23": egress.ClassMetadata, "fd20:ce::254": egress.ClassMetadata, "fd00:42::42": egress.ClassMetadata,
		"fe80::a9fe:a9fe": egress.ClassMetadata, "::ffff:169.254.169.254": egress.ClassMetadata, "64:ff9b::a9fe:a9fe": egress.ClassMetadata,
		"2002:a9fe:a9fe::1": egress.ClassMetadata, "::ffff:168.63.129.16": egress.ClassMetadata,

		"::ffff:10.0.0.1": egress.ClassPrivate, "::ffff:127.0.0.1": egress.ClassLoopback, "::ffff:8.8.8.8": egress.ClassPublic,
		"64:ff9b::10.0.0.1": egress.ClassPrivate, "64:ff9b::127.0.0.1": egress.ClassLoopback, "64:ff9b::8.8.8.8": egress.ClassPublic,
		"64:ff9b:0:0:0:1::1": egress.ClassReserved, "64:ff9b:1::10.0.0.1": egress.ClassReserved, "64:ff9b:1::8.8.8.8": egress.ClassReserved,
		"2002:a00:1::1": egress.ClassPrivate, "2002:7f00:1::": egress.ClassLoopback, "2002:808:808::": egress.ClassPublic, "2002:e000:1::": egress.ClassMulticast,
		"::10.0.0.1": egress.ClassReserved, "::127.0.0.1": egress.ClassReserved, "::8.8.8.8": egress.ClassReserved, // compatible
		"::ffff:0:10.0.0.1": egress.ClassReserved, "::ffff:0:8.8.8.8": egress.ClassReserved, // SIIT
		"2001:0:4136:e378:8000:63bf:3fff:fdd2": egress.ClassReserved, // Teredo

		"8.8.8.8": egress.ClassPublic, "1.1.1.1": egress.ClassPublic, "9.255.255.255": egress.ClassPublic, "11.0.0.0": egress.ClassPublic,
		"172.15.255.255": egress.ClassPublic, "172.32.0.0": egress.ClassPublic, "100.63.255.255": egress.ClassPublic, "100.128.0.0": egress.ClassPublic,
		"126.255.255.255": egress.ClassPublic, "128.0.0.0": egress.ClassPublic, "198.17.255.255": egress.ClassPublic, "198.20.0.0": egress.ClassPublic,
		"223.255.255.255": egress.ClassPublic, "192.167.255.255": egress.ClassPublic, "192.169.0.0": egress.ClassPublic, "168.63.129.17": egress.ClassPublic,
		"2606:4700::1111": egress.ClassPublic, "2001:4860:4860::8888": egress.ClassPublic, "2a00::1": egress.ClassPublic, "3fff:1000::1": egress.ClassPublic,
		"2001:200::1": egress.ClassPublic, "2001:db9::1": egress.ClassPublic, "2003::1": egress.ClassPublic,
	}
	for s, want := range tests {
		if got := egress.Classify(netip.MustParseAddr(s)); got != want {
			t.Errorf("%s: got %v, want %v", s, got, want)
		}
	}
	if got := egress.Classify(netip.Addr{}); got != egress.ClassReserved {
		t.Errorf("no address: got %v, want reserved", got)
	}
}

// Proves: G-06: the network's own translator, at each length of RFC 6052. The
// addresses are those of its section 2.4, with a private address embedded.
func TestClassifyNAT64(t *testing.T) {
	tests := []struct{ prefix, private, public string }{
		{"2a00:db8::/32", "2a00:db8:a00:1::", "2a00:db8:808:808::"},
		{"2a00:db8:100::/40", "2a00:db8:10a:0:1::", "2a00:db8:108:808:8::"},
		{"2a00:db8:122::/48", "2a00:db8:122:a00:0:100::", "2a00:db8:122:808:8:800::"},
		{"2a00:db8:122:300::/56", "2a00:db8:122:30a:0:1::", "2a00:db8:122:308:8:808::"},
		{"2a00:db8:122:344::/64", "2a00:db8:122:344:a:0:100:0", "2a00:db8:122:344:8:808:800:0"},
		{"2a00:db8:122:344::/96", "2a00:db8:122:344::10.0.0.1", "2a00:db8:122:344::8.8.8.8"},
		{"64:ff9b:1::/96", "64:ff9b:1::10.0.0.1", "64:ff9b:1::8.8.8.8"},
	}
	for _, tt := range tests {
		own := netip.MustParsePrefix(tt.prefix)
		if got := egress.Classify(netip.MustParseAddr(tt.private), own); got != egress.ClassPrivate {
			t.Errorf("%s under %s: got %v, want private", tt.private, own, got)
		}
		if got := egress.Classify(netip.MustParseAddr(tt.public), own); got != egress.ClassPublic {
			t.Errorf("%s under %s: got %v, want public", tt.public, own, got)
		}
	}
	for _, s := range []string{"2a00::/104", "2a00::/128", "2a00::/100"} {
		if got := egress.Classify(netip.MustParseAddr("2a00::1"), netip.MustParsePrefix(s)); got == egress.ClassPublic && netip.MustParsePrefix(s).Contains(netip.MustParseAddr("2a00::1")) {
			t.Errorf("a prefix without room for an address, %s: got public", s)
		}
	}
}

// Proves: S-070, S-081, E-066, G-06.
func TestCheckAddr(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("203.0.114.9"), netip.MustParseAddr("2a00::9"), netip.MustParseAddr("10.1.1.1"), netip.MustParseAddr("fe80::9%eth0")}
	type test struct {
		addr                 string
		closed, open, listed bool // deny_private_networks true, false, and listed as reachable
	}
	for _, tt := range []test{
		{"8.8.8.8", true, true, true},
		{"2606:4700::1111", true, true, true},
		{"64:ff9b::8.8.8.8", true, true, true},
		{"10.0.0.1", false, true, true},
		{"100.64.0.1", false, true, true},
		{"fd12::1", false, true, true},
		{"198.18.0.1", false, true, true},
		{"::ffff:10.0.0.1", false, true, true},
		{"64:ff9b::10.0.0.1", false, true, true},
		{"2002:a00:1::1", false, true, true},
		{"127.0.0.1", false, false, true},
		{"::1", false, false, true},
		{"::ffff:127.0.0.1", false, false, true},
		{"169.254.1.1", false, false, true},
		{"169.254.169.254", false, false, true},
		{"fd00:ec2::254", false, false, true},
		{"64:ff9b::a9fe:a9fe", false, false, true},
		{"192.0.2.1", false, false, true},
		{"240.0.0.1", false, false, true},
		{"203.0.114.9", false, false, true}, // the host's own, though public
		{"2a00::9", false, false, true},
		{"10.1.1.1", false, false, true},
		{"::ffff:203.0.114.9", false, false, true},
		{"64:ff9b::203.0.114.9", false, false, true}, // back in by the translator
		{"2002:cb00:7209::1", false, false, true},
		{"fe80::9", false, false, true},
		{"224.0.0.1", false, false, false},
		{"ff02::1", false, false, false},
		{"0.0.0.0", false, false, false},
		{"::", false, false, false},
		{"::ffff:0.0.0.0", false, false, false},
	} {
		addr := netip.MustParseAddr(tt.addr)
		check := func(what string, want, deny bool, reachable ...netip.Prefix) {
			p := allowlist(t, "a.example")
			p.DenyPrivate = deny
			d := egress.CheckAddr(p, host(t, "a.example"), addr, egress.Env{HostAddrs: own, Reachable: reachable})
			if d.Allow != want || want == (d.Code == errcode.EgressAddressDenied) {
				t.Errorf("%s, %s: got %+v, want %v", addr, what, d, want)
			}
		}
		check("private denied", tt.closed, true)
		check("private allowed", tt.open, false)
		check("reachable", tt.listed, true, prefixes("0.0.0.0/0", "::/0")...)
		check("another reachable", tt.closed, true, prefixes("10.99.0.0/16")...)
	}
}

// Proves: G-06: a listed private network is not one behind a translator, and a
// denied address is denied by whatever name or form.
func TestCheckAddrForms(t *testing.T) {
	p := allowlist(t, "a.example", "10.0.0.1")
	env := egress.Env{Reachable: prefixes("10.0.0.0/8")}
	tests := []struct {
		host, addr string
		deny       []string
		want       bool
	}{
		{"a.example", "10.0.0.1", nil, true},
		{"a.example", "::ffff:10.0.0.1", nil, true},
		{"a.example", "64:ff9b::10.0.0.1", nil, false},
		{"a.example", "2002:a00:1::", nil, false},
		{"10.0.0.1", "10.0.0.1", nil, true},
		{"10.0.0.1", "::ffff:10.0.0.1", nil, true},
		{"10.0.0.1", "10.0.0.2", nil, false}, // not what was asked for
		{"10.0.0.1", "8.8.8.8", nil, false},
		{"a.example", "8.8.8.8", []string{"8.8.8.8"}, false},
		{"a.example", "::ffff:8.8.8.8", []string{"8.8.8.8"}, false},
		{"a.example", "64:ff9b::8.8.8.8", []string{"8.8.8.8"}, false},
		{"a.example", "10.0.0.1", []string{"10.0.0.1"}, false}, // above reachable too
		{"a.example", "8.8.8.8", []string{"8.8.8.8:22"}, false},
		{"a.example", "8.8.4.4", []string{"8.8.8.8"}, true},
	}
	for _, tt := range tests {
		p.Deny = rules(t, tt.deny...)
		if d := egress.CheckAddr(p, host(t, tt.host), netip.MustParseAddr(tt.addr), env); d.Allow != tt.want {
			t.Errorf("%s at %s, deny %v: got %+v, want %v", tt.host, tt.addr, tt.deny, d, tt.want)
		}
	}
	p.Deny = nil
	if d := egress.CheckAddr(p, host(t, "a.example"), netip.Addr{}, env); d.Allow {
		t.Error("no address is allowed")
	}
	p.DenyPrivate, p.Transparent = false, true
	if d := egress.CheckAddr(p, host(t, "a.example"), netip.MustParseAddr("198.18.0.1"), env); d.Allow {
		t.Error("a synthetic address of the transparent path is dialled by the proxy itself")
	}
}
