package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
)

// packets answers each packet that comes to a port of the loopback with what
// reply makes of it: some, one or none.
func packets(t *testing.T, address string, reply func(question []byte) [][]byte) netip.AddrPort {
	t.Helper()
	socket, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := socket.ReadFrom(b)
			if err != nil {
				return
			}
			for _, packet := range reply(b[:n]) {
				_, _ = socket.WriteTo(packet, from)
			}
		}
	}()
	return netip.MustParseAddrPort(socket.LocalAddr().String())
}

// edited is a reply to a question, with address 10.0.0.1 unless edit changes it.
func edited(question []byte, edit func(*dnsmessage.Message)) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.Additionals = true, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{10, 0, 0, 1}},
		}}
	}
	edit(&m)
	reply, _ := m.Pack()
	return reply
}

// Proves: S-081. The second nameserver is asked when the first gives no answer,
// or none that can be believed; what is no answer to the question is not used.
func TestSecondNameserver(t *testing.T) {
	one := func(edit func(*dnsmessage.Message)) func([]byte) [][]byte {
		return func(question []byte) [][]byte { return [][]byte{edited(question, edit)} }
	}
	tests := map[string]func([]byte) [][]byte{
		"silent":           func([]byte) [][]byte { return nil },
		"SERVFAIL":         one(func(m *dnsmessage.Message) { m.RCode, m.Answers = dnsmessage.RCodeServerFailure, nil }),
		"REFUSED":          one(func(m *dnsmessage.Message) { m.RCode = dnsmessage.RCodeRefused }),
		"another question": one(func(m *dnsmessage.Message) { m.Questions[0].Name = dnsmessage.MustNewName("evil.example.") }),
		"no response":      one(func(m *dnsmessage.Message) { m.Response = false }),
		"garbage":          func(q []byte) [][]byte { return [][]byte{append(slices.Clone(q[:12]), 0xff, 0xff, 0xff)} },
		"another id":       one(func(m *dnsmessage.Message) { m.ID++ }),
		"one family": func(q []byte) [][]byte {
			if bytes.Contains(q, []byte{0, byte(dnsmessage.TypeAAAA), 0, 1}) {
				return nil
			}
			return [][]byte{edited(q, func(m *dnsmessage.Message) { m.Answers = nil })}
		},
	}
	for name, reply := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			origin := recordingOrigin(t, "", "")
			p := start(t, options{
				allow: []string{fmt.Sprintf("tcp://db.example:%d", origin.port)}, reachable: []string{"127.0.0.0/8"},
				servers: []netip.AddrPort{packets(t, "127.0.0.1:0", reply)},
			})
			p.names.set("db.example", []string{"127.0.0.1"})
			p.connect(fmt.Sprintf("db.example:%d", origin.port))
		})
	}
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		socket, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := netip.MustParseAddrPort(socket.LocalAddr().String()).Port()
		_ = socket.Close()
		p := start(t, options{allow: []string{"tcp://db.example:9"}, servers: []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)}})
		p.names.set("db.example", []string{"10.0.0.1"})
		if status, code, _ := p.ask("CONNECT db.example:9 HTTP/1.1\r\n\r\n"); status != 403 || code != string(errcode.EgressAddressDenied) {
			t.Errorf("got %d, %s: the second one's answer was not used", status, code)
		}
	})
}

// A forged packet with a wrong id in front of the true one is passed over.
func TestForgedReply(t *testing.T) {
	p := start(t, options{allow: []string{"tcp://db.example:9"}, servers: []netip.AddrPort{packets(t, "127.0.0.1:0", func(q []byte) [][]byte {
		return [][]byte{
			edited(q, func(m *dnsmessage.Message) { m.ID++; m.RCode, m.Answers = dnsmessage.RCodeNameError, nil }),
			{1},
			{},
			edited(q, func(*dnsmessage.Message) {}),
		}
	})}})
	if status, code, _ := p.ask("CONNECT db.example:9 HTTP/1.1\r\n\r\n"); status != 403 || code != string(errcode.EgressAddressDenied) {
		t.Errorf("got %d, %s; want the address of the true reply refused", status, code)
	}
	if asked := p.names.questions(); len(asked) != 0 {
		t.Errorf("the second nameserver was asked %q", asked)
	}
}

// Proves: S-081. An answer that does not fit into a packet is fetched by TCP;
// addresses of the cut one are not used.
func TestTruncated(t *testing.T) {
	origin := recordingOrigin(t, "", "")
	l, port := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var size [2]byte
			_, _ = io.ReadFull(c, size[:])
			question := make([]byte, binary.BigEndian.Uint16(size[:]))
			_, _ = io.ReadFull(c, question)
			reply := edited(question, func(m *dnsmessage.Message) {
				for i := range m.Answers {
					m.Answers[i].Body = &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}
				}
			})
			// In two pieces, the length alone first.
			_, _ = c.Write(binary.BigEndian.AppendUint16(nil, uint16(len(reply))))
			_, _ = c.Write(reply)
			_ = c.Close()
		}
	}()
	address := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
	packets(t, address.String(), func(q []byte) [][]byte {
		return [][]byte{edited(q, func(m *dnsmessage.Message) { m.Truncated = true })}
	})
	target := fmt.Sprintf("db.example:%d", origin.port)
	p := start(t, options{allow: []string{"tcp://" + target}, servers: []netip.AddrPort{address}})
	p.connect(target)
	if asked := p.names.questions(); len(asked) != 0 {
		t.Errorf("the second nameserver was asked %q", asked)
	}
}

// Proves: G-06. Where the network says by which prefix it reaches IPv4, an
// address behind that is judged as the IPv4 address that it leads to.
func TestNetworkNAT64(t *testing.T) {
	p := start(t, options{allow: []string{"*.lab.example"}, ports: []uint16{443}, reachable: []string{"127.0.0.1/32"}})
	p.names.set("ipv4only.arpa", []string{"2a00:1234:64::c000:aa", "2a00:1234:64::c000:ab"})
	for name, addr := range map[string]string{
		"private": "2a00:1234:64::a00:1", "metadata": "2a00:1234:64::a9fe:a9fe", "loopback": "2a00:1234:64::7f00:1",
	} {
		name += ".lab.example"
		p.names.set(name, []string{addr})
		if status, code, _ := p.ask("CONNECT " + name + ":443 HTTP/1.1\r\n\r\n"); status != 403 || code != string(errcode.EgressAddressDenied) {
			t.Errorf("%s: got %d, %s", addr, status, code)
		}
	}
	if n := strings.Count(strings.Join(p.names.questions(), "\n"), "ipv4only.arpa"); n != 1 {
		t.Errorf("the network was asked %d times, want once", n)
	}
}

// Each length of RFC 6052 section 2.2, with an address of that section's table.
func TestNAT64Prefixes(t *testing.T) {
	for addr, want := range map[string]string{
		"2a00:db8:c000:aa::":           "2a00:db8::/32",
		"2a00:db8:1c0:0:aa::":          "2a00:db8:100::/40",
		"2a00:db8:122:c000:0:aa00::":   "2a00:db8:122::/48",
		"2a00:db8:122:3c0::aa:0:0":     "2a00:db8:122:300::/56",
		"2a00:db8:122:344:c0:0:aa00:0": "2a00:db8:122:344::/64",
		"2a00:db8:122:344::c000:aa":    "2a00:db8:122:344::/96",
		"64:ff9b::c000:ab":             "64:ff9b::/96",
	} {
		if got := nat64Prefixes(netip.MustParseAddr(addr)); !slices.Contains(got, netip.MustParsePrefix(want)) {
			t.Errorf("%s: got %v, want %s", addr, got, want)
		}
	}
	if got := nat64Prefixes(netip.MustParseAddr("2a00:db8::1")); len(got) != 0 {
		t.Errorf("no such address in it: got %v", got)
	}
}

// stuck is a listener on ip and port whose queue is full: a SYN to it is lost.
func stuck(t *testing.T, ip [4]byte, port uint16) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: ip, Port: int(port)}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 16 {
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(netip.AddrFrom4(ip), port).String(), 500*time.Millisecond)
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the queue of a listener does not get full")
}

// Proves: G-07. An address that is silent does not keep the next waiting, and
// one that refuses less so.
func TestStagger(t *testing.T) {
	origin := recordingOrigin(t, "", "")
	stuck(t, [4]byte{127, 0, 0, 2}, origin.port)
	target := fmt.Sprintf("db.example:%d", origin.port)
	p := start(t, options{allow: []string{"tcp://" + target}, reachable: []string{"127.0.0.0/8"}})
	p.names.set("db.example", []string{"127.0.0.2", "127.0.0.3", "127.0.0.1"}) // nobody listens on the second
	began := time.Now()
	c := p.connect(target)
	// Alone, the silent one would take the 30 s of reachTime.
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	_ = c.Close()
	if l := p.lines(1)[0]; l.Addr != fmt.Sprintf("127.0.0.1:%d", origin.port) {
		t.Errorf("audit line %+v", l)
	}
	waitFor(t, "the losers are closed", func() bool { return origin.connections() == 1 })
}

// Proves: S-088. When there is no address but silent ones, the end is a refusal.
func TestAllSilent(t *testing.T) {
	l, port := listen(t)
	_ = l.Close()
	stuck(t, [4]byte{127, 0, 0, 2}, port)
	for _, addrs := range [][]string{{"127.0.0.2"}, {"127.0.0.2", "127.0.0.2"}} {
		p := start(t, options{allow: []string{fmt.Sprintf("db.example:%d", port)}, limits: egress.Limits{Wall: time.Second}})
		p.names.set("db.example", addrs)
		if status, code, _ := p.ask(fmt.Sprintf("CONNECT db.example:%d HTTP/1.1\r\n\r\n", port)); status != 504 || code != string(errcode.EgressTimeout) {
			t.Errorf("%v: got %d, %s", addrs, status, code)
		}
	}
}

// unixClient gives a client's end of a connection that came by the Unix socket.
func (p *proxyUnderTest) unixClient() *net.UnixConn {
	p.t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(p.t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		p.t.Fatal(err)
	}
	defer l.Close()
	client, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = client.Close() })
	raw, err := l.SyscallConn()
	if err != nil {
		p.t.Fatal(err)
	}
	fd := -1
	if ctlErr := raw.Control(func(listener uintptr) {
		fd, _, err = unix.Accept4(int(listener), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	}); ctlErr != nil || err != nil {
		p.t.Fatal(ctlErr, err)
	}
	message, err := egress.Arrival{Kind: egress.KindUnix}.AppendBinary(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.send(message, fd)
	_ = client.SetDeadline(time.Now().Add(15 * time.Second))
	return client
}

// Proves: S-076, E-068. What comes by the Unix socket is served as what comes by
// TCP: allowed, denied, in bulk, and ended from either side.
func TestUnixSocket(t *testing.T) {
	port, config := tlsOrigin(t, nil, "origin.example")
	size := 3 << 20
	pour, _ := pouring(t, size)
	p := start(t, options{allow: []string{fmt.Sprintf("origin.example:%d", port), fmt.Sprintf("tcp://db.example:%d", pour)}})
	p.names.set("origin.example", []string{"127.0.0.1"})
	p.names.set("db.example", []string{"127.0.0.1"})
	c := p.unixClient()
	if err := connectOn(c, fmt.Sprintf("origin.example:%d", port)); err != nil {
		t.Fatal(err)
	}
	if body, err := get(c, config); err != nil || body != "hello from origin.example" {
		t.Errorf("got %q, %v", body, err)
	}
	c = p.unixClient()
	if err := connectOn(c, fmt.Sprintf("db.example:%d", pour)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, c); n != int64(size) || err != nil {
		t.Errorf("received %d bytes, %v; want %d", n, err, size)
	}
	_ = c.Close()
	c = p.unixClient()
	_, _ = io.WriteString(c, "CONNECT other.example:443 HTTP/1.1\r\n\r\n")
	if answer, err := io.ReadAll(c); err != nil || !strings.Contains(string(answer), "X-Sage-Deny: sandbox.egress_host_denied") {
		t.Errorf("denied: %q, %v", answer, err)
	}
	kinds := map[string]int{}
	for _, l := range p.lines(3) {
		kinds[l.Kind]++
	}
	if kinds[egress.KindUnix.String()] != 3 {
		t.Errorf("kinds in the audit: %v", kinds)
	}
}

// Proves: S-065, S-067. An upstream proxy by https is one whose certificate is
// for its name and of the given roots; the tunnel through it holds bulk and ends.
func TestUpstreamTLS(t *testing.T) {
	port, config := tlsOrigin(t, nil, "origin.example")
	cert, _ := certFor(t, "up.example")
	other, _ := certFor(t, "up.example")
	roots := func(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }
	up := secureUpstream(t, cert)
	for _, tt := range []struct {
		name, host string
		roots      []byte
		ok         bool
	}{
		{"verified", "up.example", roots(cert.Certificate[0]), true},
		{"other roots", "up.example", roots(other.Certificate[0]), false},
		{"another name", "down.example", roots(cert.Certificate[0]), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, options{upstream: &egress.Upstream{Scheme: "https", Host: tt.host, Port: up}, roots: tt.roots, ports: []uint16{port}})
			for _, name := range []string{"up.example", "down.example", "origin.example"} {
				p.names.set(name, []string{"127.0.0.1"})
			}
			target := fmt.Sprintf("origin.example:%d", port)
			if tt.ok {
				if body, err := get(p.connect(target), config); err != nil || body != "hello from origin.example" {
					t.Errorf("got %q, %v", body, err)
				}
				return
			}
			if status, code, _ := p.ask("CONNECT " + target + " HTTP/1.1\r\n\r\n"); status != 502 || code != string(errcode.EgressUpstreamRefused) {
				t.Errorf("got %d, %s", status, code)
			}
		})
	}
	if _, err := newUpstream(egress.Upstream{Scheme: "https", Host: "up.example"}, nil, nil); err == nil {
		t.Error("https without roots is taken")
	}
}

// A lookup that is no longer wanted ends at once.
func TestLookupEnds(t *testing.T) {
	silent := packets(t, "127.0.0.1:0", func([]byte) [][]byte { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := (&lookup{servers: []netip.AddrPort{silent}}).host(ctx, "db.example")
		done <- err
	}()
	cancel()
	select {
	case err := <-done:
		if err == nil {
			t.Error("it has an answer")
		}
	case <-time.After(askTime * askRounds / 2):
		t.Error("it goes on")
	}
}

// Proves: S-081. Whatever a nameserver sends: an answer is for the question, and
// has addresses or says why there are none.
func FuzzAnswer(f *testing.F) {
	const id = 0x1234
	name := dnsmessage.MustNewName("db.example.")
	asked := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	question, err := asked.Pack()
	if err != nil {
		f.Fatal(err)
	}
	for _, edit := range []func(*dnsmessage.Message){
		func(*dnsmessage.Message) {},
		func(m *dnsmessage.Message) { m.Truncated = true },
		func(m *dnsmessage.Message) { m.RCode = dnsmessage.RCodeNameError },
		func(m *dnsmessage.Message) { m.Answers = nil },
		func(m *dnsmessage.Message) {
			alias := dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET}
			m.Answers = append([]dnsmessage.Resource{{Header: alias, Body: &dnsmessage.CNAMEResource{CNAME: name}}}, m.Answers...)
		},
	} {
		f.Add(edited(question, edit))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		addrs, truncated, err := readAnswer(reply, id, question)
		if err == nil && !truncated && len(addrs) == 0 || len(addrs) > 0 && (err != nil || truncated) {
			t.Fatalf("got %v, truncated %v, %v", addrs, truncated, err)
		}
		if err != nil && !errors.Is(err, errNoSuchHost) && !errors.Is(err, errAnswer) {
			t.Fatalf("got %v", err)
		}
		if err == nil && (len(reply) < 12 || binary.BigEndian.Uint16(reply) != id) {
			t.Fatalf("a reply with another id is taken: %x", reply)
		}
		for _, a := range addrs {
			if !a.IsValid() {
				t.Fatalf("address %v", a)
			}
		}
	})
}
