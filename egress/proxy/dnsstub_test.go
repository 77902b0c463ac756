package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/sage-sandbox/sage/egress"
)

// written keeps what a stub records.
type written struct {
	mu       sync.Mutex
	lines    []egress.AuditLine
	counters [egress.NumCounters]int64
}

func (w *written) add(c egress.Counter, n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counters[c] += n
}

func (w *written) write(line egress.AuditLine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, line)
}

func testStub(t testing.TB, allow ...string) (*stub, *written) {
	t.Helper()
	p := egress.Policy{Mode: egress.ModeAllowlist, Ports: []uint16{443}, Schemes: []string{"https"}, Transparent: true}
	for _, text := range allow {
		rule, err := egress.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Allow = append(p.Allow, rule)
	}
	w := &written{}
	return newStub(p, w), w
}

// question is one as clients send it.
func question(t testing.TB, name string, kind dnsmessage.Type, edns bool) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	if edns {
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(4096, dnsmessage.RCodeSuccess, false); err != nil {
			t.Fatal(err)
		}
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
	}
	packed, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// summary is code, answer and the reason of RFC 8914 of a message.
func summary(t testing.TB, message []byte) string {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(message); err != nil {
		t.Fatalf("an answer that cannot be read: %v", err)
	}
	if !m.Response || m.ID != 7 || !m.RecursionAvailable {
		t.Errorf("header: saw %+v", m.Header)
	}
	parts := []string{strings.TrimPrefix(m.RCode.String(), "RCode")}
	for _, r := range m.Answers {
		switch body := r.Body.(type) {
		case *dnsmessage.AResource:
			parts = append(parts, netip.AddrFrom4(body.A).String())
		case *dnsmessage.PTRResource:
			parts = append(parts, body.PTR.String())
		default:
			parts = append(parts, "something else")
		}
	}
	for _, r := range m.Additionals {
		opt, _ := r.Body.(*dnsmessage.OPTResource)
		for _, o := range opt.Options {
			parts = append(parts, fmt.Sprintf("%d/%d %s", o.Code, binary.BigEndian.Uint16(o.Data), o.Data[2:]))
		}
	}
	return strings.Join(parts, " ")
}

// TestStub is a table of what clients ask.
//
// Proves: S-081.
func TestStub(t *testing.T) {
	s, w := testStub(t, "pypi.org", "*.example.com", "tcp://db.example.net:5432")
	tests := []struct {
		name string
		kind dnsmessage.Type
		want string
	}{
		{"pypi.org.", dnsmessage.TypeA, "Success 198.18.0.2"},
		{"PyPI.org.", dnsmessage.TypeA, "Success 198.18.0.2"},
		{"a.b.example.com.", dnsmessage.TypeA, "Success 198.18.0.3"},
		{"db.example.net.", dnsmessage.TypeA, "Success 198.18.0.4"},
		{"pypi.org.", dnsmessage.TypeAAAA, "Success"},
		{"pypi.org.", 65, "Success"},                 // HTTPS
		{"pypi.org.", 64, "Success"},                 // SVCB
		{"pypi.org.", dnsmessage.TypeTXT, "Success"}, // nothing is carried in or out
		{"pypi.org.", dnsmessage.TypeALL, "Success"},
		{"2.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, "Success pypi.org."},
		{"3.0.18.198.IN-ADDR.arpa.", dnsmessage.TypePTR, "Success a.b.example.com."},
		{"9.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, "Refused"},
		{"1.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, "Refused"},
		{"1.0.0.127.in-addr.arpa.", dnsmessage.TypePTR, "Refused"},
		{"pypi.org.", dnsmessage.TypePTR, "Refused"},
		{"example.com.", dnsmessage.TypeA, "Refused"},
		{"secret.attacker.example.", dnsmessage.TypeA, "Refused"},
		{"pypi.org.attacker.example.", dnsmessage.TypeA, "Refused"},
		{"xpypi.org.", dnsmessage.TypeA, "Refused"},
		{"_http._tcp.pypi.org.", dnsmessage.TypeSRV, "Refused"},
		{"pypi.org.local.", dnsmessage.TypeA, "Refused"},
		{"127.0.0.1.", dnsmessage.TypeA, "Refused"},
		{"0x7f.1.", dnsmessage.TypeA, "Refused"},
		{".", dnsmessage.TypeNS, "Refused"},
		{"a\x00.example.com.", dnsmessage.TypeA, "Refused"},
		{"pypi.org.", dnsmessage.TypeAXFR, "Success"},
	}
	for _, tt := range tests {
		for _, edns := range []bool{false, true} {
			want := tt.want
			got := summary(t, s.answer(question(t, tt.name, tt.kind, edns)))
			if edns && strings.HasPrefix(want, "Refused") {
				got, _, _ = strings.Cut(got, " 15/15 sage: ")
			}
			if got != want {
				t.Errorf("%q %v: saw %q, want %q", tt.name, tt.kind, got, want)
			}
		}
	}
	if w.counters[egress.CounterDNSRefused] != 2*14 || w.counters[egress.CounterDNSAllowed] != 2*12 {
		t.Errorf("counters: saw %v", w.counters)
	}
}

// TestStubReason is what a person sees who asks with dig.
func TestStubReason(t *testing.T) {
	s, w := testStub(t, "pypi.org")
	got := summary(t, s.answer(question(t, "other.example.", dnsmessage.TypeA, true)))
	if want := "Refused 15/15 sage: sandbox.egress_host_denied"; got != want {
		t.Errorf("saw %q, want %q", got, want)
	}
	if len(w.lines) != 1 {
		t.Fatalf("saw %d lines", len(w.lines))
	}
	w.lines[0].Time = time.Time{}
	want := egress.AuditLine{
		Event: "dns", Action: "deny", Kind: "dns", Method: "A", Host: "other.example",
		Code: "sandbox.egress_host_denied", Reason: "no rule of the policy allows this host",
	}
	if diff := cmp.Diff(want, w.lines[0]); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}

// TestStubMalformed is about what is no question.
func TestStubMalformed(t *testing.T) {
	s, _ := testStub(t, "pypi.org")
	good := question(t, "pypi.org.", dnsmessage.TypeA, false)
	change := func(at int, b ...byte) []byte {
		m := append([]byte{}, good...)
		copy(m[at:], b)
		return m
	}
	version1 := question(t, "pypi.org.", dnsmessage.TypeA, true)
	version1[len(version1)-5] = 1
	tests := map[string]struct {
		message []byte
		want    string // "" is no answer
	}{
		"empty":               {nil, ""},
		"short":               {good[:11], ""},
		"an answer":           {change(2, 0x80), ""},
		"a notification":      {change(2, 4<<3), "NotImplemented"},
		"no question":         {change(4, 0, 0), "FormatError"},
		"two questions":       {append(change(4, 0, 2), good[12:]...), "FormatError"},
		"65535 questions":     {change(4, 0xff, 0xff), "FormatError"},
		"cut":                 {good[:len(good)-3], "FormatError"},
		"more than there is":  {change(10, 0, 1), "FormatError"},
		"name points to self": {change(12, 0xc0, 12), "FormatError"},
		"class CHAOS":         {change(len(good)-2, 0, 3), "Refused"},
		"EDNS version 1":      {version1, "16"},
	}
	for name, tt := range tests {
		got := s.answer(tt.message)
		switch {
		case tt.want == "" && got != nil:
			t.Errorf("%s: saw an answer of %d bytes, want none", name, len(got))
		case tt.want == "" || tt.want == "16":
		case !strings.HasPrefix(summary(t, got), tt.want):
			t.Errorf("%s: saw %q, want %q", name, summary(t, got), tt.want)
		}
		if tt.want == "16" && (len(got) < 12 || got[3]&0xf != 0 || !strings.Contains(string(got), "\x00\x00\x29\x04\xd0\x01")) {
			t.Errorf("%s: saw %x, want BADVERS in the OPT record", name, got)
		}
	}
}

// TestStubFlood asks for a million things that are denied, all different.
func TestStubFlood(t *testing.T) {
	s, w := testStub(t, "*.example.com")
	for i := range 20_000 {
		s.answer(question(t, fmt.Sprintf("x%d.attacker.example.", i), dnsmessage.TypeA, false))
	}
	if n := len(w.lines); n < quotaBurst || n > 2*quotaBurst {
		t.Errorf("saw %d lines of 20000 refusals, want %d and a few", n, quotaBurst)
	}
	if w.counters[egress.CounterDNSRefused] != 20_000 {
		t.Errorf("counted %d refusals", w.counters[egress.CounterDNSRefused])
	}
	for i := range maxNames + 10 {
		got := summary(t, s.answer(question(t, fmt.Sprintf("x%d.example.com.", i), dnsmessage.TypeA, false)))
		if want := i < maxNames; strings.HasPrefix(got, "Success 198.") != want {
			t.Fatalf("name %d: saw %q", i, got)
		}
	}
	// What was given stays.
	if got := summary(t, s.answer(question(t, "x0.example.com.", dnsmessage.TypeA, false))); got != "Success 198.18.0.2" {
		t.Errorf("the first name: saw %q", got)
	}
	if host, ok := s.Name(at(firstName + maxNames - 1)); !ok || host.Name() != fmt.Sprintf("x%d.example.com", maxNames-1) {
		t.Errorf("the last address: saw %v", host)
	}
}

// TestQuota has time pass.
func TestQuota(t *testing.T) {
	var q quota
	now := time.Unix(1000, 0)
	for i := range quotaBurst {
		if _, ok := q.take(fmt.Sprint("a", i), now); !ok {
			t.Fatalf("line %d was not written", i)
		}
	}
	for i := range 7 {
		if _, ok := q.take(fmt.Sprint("b", i), now); ok {
			t.Error("a line beyond the burst")
		}
	}
	if _, ok := q.take("a0", now.Add(time.Second)); ok {
		t.Error("a repetition was written")
	}
	if skipped, ok := q.take("c", now.Add(time.Second)); !ok || skipped != 7 {
		t.Errorf("later: saw %d, %v, want 7 skipped and written", skipped, ok)
	}
	if _, ok := q.take("a0", now.Add(2*quotaForget)); !ok {
		t.Error("a repetition after a long time was not written")
	}
}

// TestSynthetic is about addresses that stand for nothing.
func TestSynthetic(t *testing.T) {
	var s synthetic
	host, err := egress.ParseHost("pypi.org")
	if err != nil {
		t.Fatal(err)
	}
	addr, _ := s.address(host)
	if got, ok := s.name(netip.AddrFrom16(addr.As16())); !ok || got != host {
		t.Errorf("mapped: saw %v", got)
	}
	for _, text := range []string{"198.18.0.0", "198.18.0.1", "198.18.0.3", "198.19.255.255", "198.20.0.0", "198.17.255.255", "8.8.8.8", "::1", "2001:db8::1"} {
		if got, ok := s.name(netip.MustParseAddr(text)); ok {
			t.Errorf("%s: saw %v", text, got)
		}
	}
	if got, ok := s.name(netip.Addr{}); ok {
		t.Errorf("no address: saw %v", got)
	}
}

// TestServeStream has several questions on one connection, and what is too long.
func TestServeStream(t *testing.T) {
	s, _ := testStub(t, "pypi.org")
	client, server := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); defer server.Close(); s.ServeStream(ctx, server) }()
	for range 3 {
		q := question(t, "pypi.org.", dnsmessage.TypeA, false)
		if _, err := client.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)); err != nil {
			t.Fatal(err)
		}
		answer, err := readStream(client)
		if err != nil || summary(t, answer) != "Success 198.18.0.2" {
			t.Fatalf("saw %x, %v", answer, err)
		}
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("serves on after the end")
	}
	client, server = net.Pipe()
	go func() { defer server.Close(); s.ServeStream(t.Context(), server) }()
	_, _ = client.Write([]byte{0xff, 0xff})
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a length of 65535: saw %v, want an end", err)
	}
}

// TestServePacket survives what is no question, and ends with its context.
func TestServePacket(t *testing.T) {
	s, _ := testStub(t, "pypi.org")
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.ServePacket(ctx, socket) }()
	client, err := net.Dial("udp4", socket.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_ = client.SetDeadline(time.Now().Add(5 * time.Second))
	for _, message := range [][]byte{{}, {1}, make([]byte, 9000), question(t, "pypi.org.", dnsmessage.TypeA, false)} {
		if _, err := client.Write(message); err != nil {
			t.Fatal(err)
		}
	}
	room := make([]byte, 1500)
	for {
		n, err := client.Read(room)
		if err != nil {
			t.Fatal(err)
		}
		if room[1] == 7 {
			if got := summary(t, room[:n]); got != "Success 198.18.0.2" {
				t.Errorf("saw %q", got)
			}
			break
		}
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("serves on after the end")
	}
}

// FuzzStub: no message makes the stub fall, answer an answer, or give an address
// for a name that is not allowed; what it says can be read and is small.
func FuzzStub(f *testing.F) {
	for _, name := range []string{"pypi.org.", "a.example.com.", "other.example.", "2.0.18.198.in-addr.arpa."} {
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypePTR, 65} {
			f.Add(question(f, name, kind, kind == dnsmessage.TypeA))
		}
	}
	s, _ := testStub(f, "pypi.org", "*.example.com")
	f.Fuzz(func(t *testing.T, message []byte) {
		answer := s.answer(message)
		if answer == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(answer); err != nil || len(answer) > 512+maxReason || !m.Response {
			t.Fatalf("%x: answer %x, %v", message, answer, err)
		}
		for _, r := range m.Answers {
			a, ok := r.Body.(*dnsmessage.AResource)
			if !ok {
				continue
			}
			name := strings.ToLower(r.Header.Name.String())
			if name != "pypi.org." && !strings.HasSuffix(name, ".example.com.") || !egress.Synthetic.Contains(netip.AddrFrom4(a.A)) {
				t.Fatalf("%x: %q is at %v", message, name, a.A)
			}
		}
	})
}

// maxReason is the OPT record with a reason, at most.
const maxReason = 120
