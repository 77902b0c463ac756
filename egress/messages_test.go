package egress_test

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sage-sandbox/sage/egress"
)

func TestArrival(t *testing.T) {
	for _, a := range []egress.Arrival{
		{Kind: egress.KindUnix},
		{Kind: egress.KindProxy, Local: netip.MustParseAddrPort("127.0.0.1:3128")},
		{Kind: egress.KindProxy, Local: netip.MustParseAddrPort("[::1]:3128")},
		{Kind: egress.KindTransparent, Local: netip.MustParseAddrPort("198.18.5.6:443")},
		{Kind: egress.KindDNS, Local: netip.MustParseAddrPort("198.18.0.1:53")},
		{Kind: egress.KindDNS, Local: netip.MustParseAddrPort("[::ffff:198.18.0.1]:53")},
	} {
		data, err := a.AppendBinary([]byte("x"))
		if err != nil || len(data) != 1+egress.ArrivalSize {
			t.Fatalf("%+v: got %d bytes, %v", a, len(data), err)
		}
		if again, err := egress.ParseArrival(data[1:]); err != nil || again != a {
			t.Errorf("%+v: got %+v, %v", a, again, err)
		}
		for i := range egress.ArrivalSize {
			bad := []byte(string(data[1:]))
			bad[i] ^= 0x80
			if got, err := egress.ParseArrival(bad); err == nil && got == a {
				t.Errorf("%+v: byte %d changed and nothing seen", a, i)
			}
		}
	}
	for _, a := range []egress.Arrival{{}, {Kind: 9}, {Kind: egress.KindProxy, Local: netip.MustParseAddrPort("[fe80::1%lo]:1")}} {
		if data, err := a.AppendBinary(nil); err == nil {
			t.Errorf("%+v: got %x, want an error", a, data)
		}
	}
	if _, err := egress.ParseArrival(make([]byte, egress.ArrivalSize)); err == nil {
		t.Error("zeros are an arrival")
	}
}

func FuzzParseArrival(f *testing.F) {
	for _, a := range []egress.Arrival{{Kind: egress.KindUnix}, {Kind: egress.KindTransparent, Local: netip.MustParseAddrPort("198.18.5.6:443")}} {
		data, err := a.AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := egress.ParseArrival(data)
		if err != nil {
			return
		}
		if again, err := a.AppendBinary(nil); err != nil || string(again) != string(data) {
			t.Errorf("%x: got %+v, which is %x, %v", data, a, again, err)
		}
	})
}

func fullProxyConfig(t *testing.T) egress.ProxyConfig {
	p := allowlist(t, "*.example.com", "tcp://db.example:5432", "[2001:db8::1]:443")
	p.Deny, p.Mode = rules(t, "bad.example.com"), egress.ModeProxy
	p.Upstream = &egress.Upstream{Scheme: "https", Host: "proxy.example", Port: 3128}
	p.Limits = egress.Limits{Wall: 1500 * time.Millisecond, Upload: 1, Download: 2, Total: 3, Connections: 64, Active: 32}
	p.Transparent = true
	return egress.ProxyConfig{
		Version: egress.ConfigVersion, Ready: 4, Control: 5, Events: 6, Audit: []int{7, 8}, AuditMax: 1 << 20,
		Counters: 9, Container: "c<1>", Policy: p, Nameservers: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53")},
		HostAddrs: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fe80::1%eth0")}, Reachable: prefixes("10.0.0.0/8"),
		DialsFrom: "engine", Roots: []byte("PEM"),
	}
}

// TestDecode: what one process writes the other reads, and nothing else.
func TestDecode(t *testing.T) {
	want := fullProxyConfig(t)
	for i := range reflect.ValueOf(want).NumField() {
		if reflect.ValueOf(want).Field(i).IsZero() {
			t.Errorf("%s is not tried", reflect.TypeOf(want).Field(i).Name)
		}
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := egress.Decode[egress.ProxyConfig](append(data, '\n'))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(egress.Rule{}, netip.Addr{}, netip.AddrPort{}, netip.Prefix{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text := string(data)
	for what, bad := range map[string]string{
		"unknown key":   strings.Replace(text, `"ready"`, `"more":1,"ready"`, 1),
		"other case":    strings.Replace(text, `"ready"`, `"READY"`, 1),
		"twice":         strings.Replace(text, `"ready"`, `"control":0,"ready"`, 1),
		"left out":      strings.Replace(text, `"ready":4,`, "", 1),
		"trailing":      text + "{}",
		"other form":    strings.Replace(text, "*.example.com", "*.Example.com", 1),
		"no rule":       strings.Replace(text, "*.example.com", "*.com", 1),
		"other type":    strings.Replace(text, `"ready":4`, `"ready":"4"`, 1),
		"escaped":       strings.Replace(text, "engine", `\u0065ngine`, 1),
		"cut":           text[:len(text)-1],
		"nothing":       "",
		"null":          "null",
		"another one's": `{"version":1}`,
	} {
		if bad == text {
			t.Fatalf("%s: nothing is changed", what)
		}
		if got, err := egress.Decode[egress.ProxyConfig]([]byte(bad)); err == nil {
			t.Errorf("%s: got %+v, want an error", what, got)
		}
	}
	bridge := egress.BridgeConfig{Version: 1, Listeners: []egress.BridgeListener{{FD: 7, Kind: egress.KindProxy}}, DNS: -1, Diag: -1, PeerCgroup: 1<<64 - 1}
	if data, err = json.Marshal(bridge); err != nil {
		t.Fatal(err)
	}
	if got, err := egress.Decode[egress.BridgeConfig](data); err != nil || !reflect.DeepEqual(got, bridge) {
		t.Errorf("got %+v, %v, want %+v", got, err, bridge)
	}
}

// TestCounters: each has a name of its own by Prometheus' rules, and the file
// has room for it.
func TestCounters(t *testing.T) {
	seen := map[string]bool{}
	for i, c := range egress.Counters {
		if c.Name == "" || seen[c.Name+string(c.Code)] || strings.Trim(c.Name, "abcdefghijklmnopqrstuvwxyz_") != "" || !strings.HasSuffix(c.Help, ".") {
			t.Errorf("counter %d: got %+v", i, c)
		}
		if c.Gauge == strings.HasSuffix(c.Name, "_total") {
			t.Errorf("%s: only what never goes down is a total", c.Name)
		}
		seen[c.Name+string(c.Code)] = true
		if of, ok := egress.DenialCounter(c.Code); ok != (c.Code != "") || ok && of != egress.Counter(i) {
			t.Errorf("%s: got counter %d, %t, want %d", c.Code, of, ok, i)
		}
	}
	if int(egress.NumCounters)*8 > egress.CountersSize {
		t.Errorf("%d counters do not fit in %d bytes", egress.NumCounters, egress.CountersSize)
	}
	for k, want := range map[egress.Kind]string{egress.KindProxy: "proxy", egress.KindUnix: "unix", egress.KindTransparent: "transparent", egress.KindDNS: "dns", 0: "kind 0", 9: "kind 9"} {
		if got := k.String(); got != want {
			t.Errorf("kind: got %q, want %q", got, want)
		}
	}
}

// TestAuditLine: a line is one line, whatever a hostile program has put into it.
func TestAuditLine(t *testing.T) {
	line := egress.AuditLine{Event: egress.EventEgress, Action: egress.ActionDeny, SNI: "a\n{\"action\":\"allow\"}\u2028\x00\x7f"}
	data, err := json.Marshal(line)
	if err != nil || strings.ContainsAny(string(data), "\n\x00\u2028") {
		t.Errorf("got %q, %v", data, err)
	}
}
