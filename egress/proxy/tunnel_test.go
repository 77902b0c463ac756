package proxy

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
)

// tlsOrigin is an HTTPS server for names, with the client's roots.
func tlsOrigin(t testing.TB, config *tls.Config, names ...string) (port uint16, client *tls.Config) {
	t.Helper()
	cert, roots := certFor(t, names...)
	if config == nil {
		config = &tls.Config{}
	}
	config.Certificates = []tls.Certificate{cert}
	l, port := listen(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello from %s", r.TLS.ServerName)
	})}
	go func() { _ = server.Serve(tls.NewListener(l, config)) }()
	t.Cleanup(func() { _ = server.Close() })
	return port, &tls.Config{ServerName: names[0], RootCAs: roots}
}

// get fetches / through a tunnel.
func get(c net.Conn, config *tls.Config) (string, error) {
	conn := tls.Client(c, config)
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", config.ServerName); err != nil {
		return "", err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// Proves: S-079, S-081, S-084, S-085. A tunnel to an allowed host works, TLS is
// verified from end to end, one lookup is made, and one line is left.
func TestTunnel(t *testing.T) {
	port, config := tlsOrigin(t, nil, "origin.example")
	p := start(t, options{allow: []string{fmt.Sprintf("origin.example:%d", port)}})
	p.names.set("origin.example", []string{"127.0.0.1"})
	body, err := get(p.connect(fmt.Sprintf("ORIGIN.example.:%d", port)), config)
	if err != nil || body != "hello from origin.example" {
		t.Fatalf("got %q, %v", body, err)
	}
	l := p.lines(1)[0]
	want := egress.AuditLine{
		Container: "c1", Event: "egress", Action: "allow", Kind: "proxy", Scheme: "https", Method: "CONNECT",
		Host: "origin.example", Port: port, Rule: fmt.Sprintf("origin.example:%d", port),
		Addr: fmt.Sprintf("127.0.0.1:%d", port), Dials: "host",
	}
	if l.Up < 300 || l.Down < 500 {
		t.Errorf("bytes up %d, down %d", l.Up, l.Down)
	}
	l.Time, l.Up, l.Down, l.MS = want.Time, 0, 0, 0
	if l != want {
		t.Errorf("audit line\n%+v, want\n%+v", l, want)
	}
	if asked := strings.Join(p.names.questions(), " "); asked != "A origin.example. AAAA origin.example." && asked != "AAAA origin.example. A origin.example." {
		t.Errorf("asked the nameserver %q", asked)
	}
	waitFor(t, "gauges at 0", func() bool { return p.count(egress.CounterHeld) == 0 && p.count(egress.CounterActive) == 0 })
	if p.count(egress.CounterAllowed) != 1 || p.count(egress.CounterAccepted) != 1 || p.count(egress.CounterDenied) != 0 {
		t.Errorf("allowed %d, accepted %d, denied %d", p.count(egress.CounterAllowed), p.count(egress.CounterAccepted), p.count(egress.CounterDenied))
	}
}

// alertFrom sends bytes into a tunnel and gives the alert that comes back.
func alertFrom(t *testing.T, c net.Conn, pieces ...[]byte) (alert byte, ok bool) {
	t.Helper()
	for _, b := range pieces {
		if _, err := c.Write(b); err != nil {
			break
		}
	}
	got, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("end of the tunnel: %v, want an end in good order", err)
	}
	if len(got) == 7 && string(got[:6]) == "\x15\x03\x03\x00\x02\x02" {
		return got[6], true
	}
	return 0, len(got) != 0
}

// helloOf is the ClientHello that crypto/tls sends.
func helloOf(t *testing.T, config *tls.Config) []byte {
	t.Helper()
	here, there := net.Pipe()
	defer there.Close()
	config.InsecureSkipVerify = true
	go func() { _ = tls.Client(here, config).Handshake(); _ = here.Close() }()
	head := make([]byte, 5)
	if _, err := io.ReadFull(there, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(there, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// twoNames is a hello whose server_name has a second entry.
func twoNames(name, second string) []byte {
	entry := func(s string) string { return "\x00" + string([]byte{0, byte(len(s))}) + s }
	list := entry(name) + entry(second)
	sni := "\x00\x00" + string([]byte{0, byte(len(list) + 2), 0, byte(len(list))}) + list
	return rawHello(sni)
}

func rawHello(extensions string) []byte {
	body := "\x03\x03" + strings.Repeat("r", 32) + "\x00\x00\x02\x13\x01\x01\x00" +
		string([]byte{byte(len(extensions) >> 8), byte(len(extensions))}) + extensions
	m := "\x01" + string([]byte{0, byte(len(body) >> 8), byte(len(body))}) + body
	return []byte("\x16\x03\x01" + string([]byte{byte(len(m) >> 8), byte(len(m))}) + m)
}

// sni is the extension with one name.
func sni(name string) string {
	n := len(name)
	return string([]byte{0, 0, byte((n + 5) >> 8), byte(n + 5), byte((n + 3) >> 8), byte(n + 3), 0, byte(n >> 8), byte(n)}) + name
}

// Proves: S-084, G-12, K-31. What is not a ClientHello for the tunnel's host
// ends the tunnel with an alert, and not one byte of it reaches the origin.
func TestTunnelRefused(t *testing.T) {
	origin := recordingOrigin(t, "", "")
	target := fmt.Sprintf("origin.example:%d", origin.port)
	p := start(t, options{allow: []string{target}, limits: egress.Limits{Connections: 200}})
	p.names.set("origin.example", []string{"127.0.0.1"})
	good := rawHello(sni("origin.example"))
	big := rawHello(sni("origin.example") + "\xaa\xaa\x40\x00" + strings.Repeat("x", 16<<10))
	long := strings.Repeat("a", 255)
	tests := []struct {
		name  string
		sent  []byte
		code  errcode.Code
		alert byte
	}{
		{"another name", helloOf(t, &tls.Config{ServerName: "evil.example"}), errcode.EgressSNIMismatch, 112},
		{"no name", helloOf(t, &tls.Config{}), errcode.EgressSNIMissing, 112},
		{"two names", twoNames("origin.example", "evil.example"), errcode.EgressHelloInvalid, 50},
		{"server_name twice", rawHello(sni("origin.example") + sni("evil.example")), errcode.EgressHelloInvalid, 50},
		{"ECH", rawHello(sni("origin.example") + "\xfe\x0d\x00\x01\x00"), errcode.EgressECHRefused, 49},
		{"name below", rawHello(sni("a.origin.example")), errcode.EgressSNIMismatch, 112},
		{"NUL in the name", rawHello(sni("origin.example\x00.evil.example")), errcode.EgressSNIMismatch, 112},
		{"letter that folds to ASCII", rawHello(sni("or\u0131gin.example")), errcode.EgressSNIMismatch, 112},
		{"255 bytes", rawHello(sni(long)), errcode.EgressSNIMismatch, 112},
		{"256 bytes", rawHello(sni(long + "a")), errcode.EgressHelloInvalid, 50},
		{"a record over 18 KiB", append([]byte("\x16\x03\x01\x50\x00"), big[5:]...), errcode.EgressHelloInvalid, 50},
		{"two hellos in a record", twoHellos(good, rawHello(sni("evil.example"))), errcode.EgressHelloInvalid, 50},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: origin.example\r\n\r\n"), errcode.EgressNotTLS, 0},
		{"SSH", []byte("SSH-2.0-x\r\n"), errcode.EgressNotTLS, 0},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := p.connect(target)
			if alert, ok := alertFrom(t, c, tt.sent); alert != tt.alert || ok != (tt.alert != 0) {
				t.Errorf("alert %d, %v; want %d", alert, ok, tt.alert)
			}
			l := p.lines(i + 1)[i]
			if l.Code != tt.code || l.Action != egress.ActionDeny || l.Up != 0 {
				t.Errorf("audit line %+v, want a denial with %s and nothing sent", l, tt.code)
			}
		})
	}
	if got := origin.bytes(); got != "" {
		t.Errorf("the origin received %q", got)
	}
	byCode := map[errcode.Code]int64{}
	for _, tt := range tests {
		byCode[tt.code]++
	}
	for code, want := range byCode {
		if c, ok := egress.DenialCounter(code); !ok || p.count(c) != want {
			t.Errorf("%s: counted %d, %t, want %d", code, p.count(c), ok, want)
		}
	}
	if got := p.count(egress.CounterDenied); got != int64(len(tests)) {
		t.Errorf("counted %d denials, want %d", got, len(tests))
	}
}

func twoHellos(a, b []byte) []byte {
	both := append(append([]byte{}, a[5:]...), b[5:]...)
	return append([]byte{22, 3, 1, byte(len(both) >> 8), byte(len(both))}, both...)
}

// Proves: S-084, field 25. A good hello arrives at the origin byte for byte,
// wherever it is cut; and one that is bad at its end does not arrive in part.
func TestHelloSplit(t *testing.T) {
	good, bad := rawHello(sni("origin.example")), rawHello(sni("origin.examplf"))
	for at := 1; at < len(good); at += 3 {
		origin := recordingOrigin(t, string(good), "\x16\x03\x03")
		target := fmt.Sprintf("origin.example:%d", origin.port)
		p := start(t, options{allow: []string{target}})
		p.names.set("origin.example", []string{"127.0.0.1"})
		c, d := p.connect(target), p.connect(target)
		for _, b := range [][]byte{good[:at], good[at:]} {
			_, _ = c.Write(b)
			time.Sleep(time.Millisecond)
		}
		waitFor(t, "hello at the origin", func() bool { return origin.bytes() == string(good) })
		if alert, _ := alertFrom(t, d, bad[:at], bad[at:]); alert != 112 {
			t.Fatalf("cut at %d: alert %d", at, alert)
		}
		if origin.bytes() != string(good) {
			t.Fatalf("cut at %d: the origin received more than the good hello", at)
		}
	}
}

// Proves: S-084. Post-quantum sized hellos and hellos over many records pass.
func TestLongHello(t *testing.T) {
	hello := rawHello(sni("origin.example") + "\xaa\xaa\x3a\x98" + strings.Repeat("x", 15000))
	var cut []byte
	for body := hello[5:]; len(body) > 0; {
		n := min(700, len(body))
		cut = append(append(cut, 22, 3, 1, byte(n>>8), byte(n)), body[:n]...)
		body = body[n:]
	}
	origin := recordingOrigin(t, "", "")
	target := fmt.Sprintf("origin.example:%d", origin.port)
	p := start(t, options{allow: []string{target}})
	p.names.set("origin.example", []string{"127.0.0.1"})
	c := p.connect(target)
	if _, err := c.Write(cut); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "hello at the origin", func() bool { return origin.bytes() == string(cut) })
}

// Proves: G-12. A host may take ECH's outer name for the name.
func TestECHOuter(t *testing.T) {
	origin := recordingOrigin(t, "", "")
	target := fmt.Sprintf("origin.example:%d", origin.port)
	p := start(t, options{allow: []string{target}, ech: egress.ECHOuter})
	p.names.set("origin.example", []string{"127.0.0.1"})
	hello := rawHello(sni("origin.example") + "\xfe\x0d\x00\x01\x00")
	c := p.connect(target)
	_, _ = c.Write(hello)
	waitFor(t, "hello at the origin", func() bool { return origin.bytes() == string(hello) })
	if alert, _ := alertFrom(t, p.connect(target), rawHello(sni("evil.example")+"\xfe\x0d\x00\x01\x00")); alert != 112 {
		t.Errorf("alert %d for another outer name", alert)
	}
}

// Proves: attack 11, G-13. A real HelloRetryRequest passes; after it, a second
// hello with another name does not reach the server.
func TestRetry(t *testing.T) {
	port, config := tlsOrigin(t, &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP256}}, "origin.example")
	target := fmt.Sprintf("origin.example:%d", port)
	p := start(t, options{allow: []string{target}})
	p.names.set("origin.example", []string{"127.0.0.1"})
	config.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256}
	if body, err := get(p.connect(target), config); err != nil || body != "hello from origin.example" {
		t.Fatalf("through a HelloRetryRequest: %q, %v", body, err)
	}

	random := "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"
	retry := "\x16\x03\x03\x00\x2a\x02\x00\x00\x26\x03\x03" + random + "\x00\x13\x01\x00"
	first := string(rawHello(sni("origin.example")))
	ccs := "\x14\x03\x03\x00\x01\x01"
	origin := recordingOrigin(t, first, retry)
	target = fmt.Sprintf("origin.example:%d", origin.port)
	p = start(t, options{allow: []string{target}})
	p.names.set("origin.example", []string{"127.0.0.1"})
	c := p.connect(target)
	_, _ = io.WriteString(c, first)
	if _, err := io.ReadFull(c, make([]byte, len(retry))); err != nil {
		t.Fatal(err)
	}
	if alert, _ := alertFrom(t, c, []byte(ccs), rawHello(sni("evil.example"))); alert != 112 {
		t.Errorf("alert %d for another name in the second hello", alert)
	}
	if got := origin.bytes(); !strings.HasPrefix(first+ccs, got) {
		t.Errorf("the origin received %q", got)
	}
	if l := p.lines(1)[0]; l.Code != errcode.EgressSNIMismatch || l.SNI != "evil.example" || l.Action != egress.ActionDeny {
		t.Errorf("audit line %+v", l)
	}
}

// Proves: S-088. A hello that does not come, or comes slowly, is not waited for
// longer than the connection may take.
func TestSlowHello(t *testing.T) {
	origin := recordingOrigin(t, "", "")
	target := fmt.Sprintf("origin.example:%d", origin.port)
	p := start(t, options{allow: []string{target}, limits: egress.Limits{Wall: 600 * time.Millisecond}})
	p.names.set("origin.example", []string{"127.0.0.1"})
	c := p.connect(target)
	began := time.Now()
	go func() {
		for _, b := range rawHello(sni("origin.example")) {
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	_, _ = io.Copy(io.Discard, c)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	if l := p.lines(1)[0]; l.Code != errcode.EgressTimeout || origin.bytes() != "" {
		t.Errorf("audit line %+v, origin received %q", l, origin.bytes())
	}
}

// Proves: G-07, S-081. Of several addresses one that answers is used; a name
// that leads nowhere is told apart from one that is refused.
func TestReach(t *testing.T) {
	port, config := tlsOrigin(t, nil, "origin.lab.example")
	closed, closedPort := listen(t)
	_ = closed.Close()
	p := start(t, options{allow: []string{"*.lab.example"}, ports: []uint16{port, closedPort}, reachable: []string{"127.0.0.1/32", "::1/128"}})
	p.names.set("origin.lab.example", []string{"::1", "127.0.0.1", "10.0.0.1"})
	if body, err := get(p.connect(fmt.Sprintf("origin.lab.example:%d", port)), config); err != nil {
		t.Errorf("got %q, %v", body, err)
	}
	tests := []struct {
		name   string
		addrs  []string
		port   uint16
		status int
		code   errcode.Code
	}{
		{"closed.lab.example", []string{"127.0.0.1"}, closedPort, 502, errcode.EgressConnectFailed},
		{"none.lab.example", []string{}, port, 502, errcode.EgressResolveFailed},
		{"private.lab.example", []string{"10.0.0.1", "fd00::1"}, port, 403, errcode.EgressAddressDenied},
		{"metadata.lab.example", []string{"169.254.169.254"}, port, 403, errcode.EgressAddressDenied},
		{"mapped.lab.example", []string{"::ffff:10.0.0.1"}, port, 403, errcode.EgressAddressDenied},
		{"nat64.lab.example", []string{"64:ff9b::a00:1"}, port, 403, errcode.EgressAddressDenied},
		{"6to4.lab.example", []string{"2002:a00:1::1"}, port, 403, errcode.EgressAddressDenied},
		{"multicast.lab.example", []string{"224.0.0.1", "ff02::1"}, port, 403, errcode.EgressAddressDenied},
		{"azure.lab.example", []string{"168.63.129.16"}, port, 403, errcode.EgressAddressDenied},
		{"unspecified.lab.example", []string{"0.0.0.0", "::"}, port, 403, errcode.EgressAddressDenied},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p.names.set(tt.name, tt.addrs)
			status, code, body := p.ask(fmt.Sprintf("CONNECT %s:%d HTTP/1.1\r\n\r\n", tt.name, tt.port))
			if status != tt.status || code != string(tt.code) || !strings.Contains(body, string(tt.code)) {
				t.Errorf("got %d, %q, %q; want %d, %q", status, code, body, tt.status, tt.code)
			}
		})
	}
}

// Proves: S-081. A nameserver that changes its mind between two answers does
// not get a private address dialled.
func TestRebinding(t *testing.T) {
	origin := recordingOrigin(t, "", "")
	p := start(t, options{allow: []string{"rebind.example"}, ports: []uint16{origin.port}, reachable: []string{"127.0.0.1/32"}})
	p.names.set("rebind.example", []string{"127.0.0.1"}, []string{"127.0.0.2"})
	c := p.connect(fmt.Sprintf("rebind.example:%d", origin.port))
	_, _ = c.Write(rawHello(sni("rebind.example")))
	waitFor(t, "hello", func() bool { return origin.bytes() != "" })
	if n := len(p.names.questions()); n != 2 {
		t.Errorf("the first connection asked %v", p.names.questions())
	}
	status, code, _ := p.ask(fmt.Sprintf("CONNECT rebind.example:%d HTTP/1.1\r\n\r\n", origin.port))
	if status != 403 || code != string(errcode.EgressAddressDenied) {
		t.Errorf("second: %d, %s", status, code)
	}
}

// Proves: A rule for tcp passes bytes as they are, and the audit says that no
// name was checked; a server that speaks first is heard.
func TestTCP(t *testing.T) {
	l, port := listen(t)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "220 ready\r\n")
		got, _ := io.ReadAll(c)
		_, _ = c.Write(got)
	}()
	p := start(t, options{allow: []string{fmt.Sprintf("tcp://db.example:%d", port)}})
	p.names.set("db.example", []string{"127.0.0.1"})
	c := p.connect(fmt.Sprintf("db.example:%d", port))
	r := bufio.NewReader(c)
	if line, err := r.ReadString('\n'); err != nil || line != "220 ready\r\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	// Half-close: the server answers after our end.
	_, _ = io.WriteString(c, "what we say")
	_ = c.CloseWrite()
	if rest, err := io.ReadAll(r); err != nil || string(rest) != "what we say" {
		t.Errorf("got %q, %v", rest, err)
	}
	if line := p.lines(1)[0]; !line.Unchecked || line.Scheme != "tcp" || line.Up != 11 || line.Down != 22 {
		t.Errorf("audit line %+v", line)
	}
}

// The other half: an origin that has ended its side still gets what comes.
func TestOriginHalfClose(t *testing.T) {
	l, port := listen(t)
	got := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.(*net.TCPConn).CloseWrite()
		text, _ := io.ReadAll(c)
		got <- string(text)
	}()
	p := start(t, options{allow: []string{fmt.Sprintf("tcp://db.example:%d", port)}})
	p.names.set("db.example", []string{"127.0.0.1"})
	c := p.connect(fmt.Sprintf("db.example:%d", port))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("read %d, %v", n, err)
	}
	_, _ = io.WriteString(c, "late")
	_ = c.Close()
	if text := <-got; text != "late" {
		t.Errorf("the origin got %q", text)
	}
}
