package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
)

const ok200 = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// Proves: S-082, S-083. One request goes to the origin, rebuilt; what comes
// after it on the connection goes nowhere.
func TestPlain(t *testing.T) {
	origin := recordingOrigin(t, "abc", ok200)
	host := fmt.Sprintf("plain.example:%d", origin.port)
	p := start(t, options{allow: []string{"http://" + host}})
	p.names.set("plain.example", []string{"127.0.0.1"})
	status, _, body := p.ask(fmt.Sprintf("POST http://%s/x HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 3\r\n\r\nabc"+
		"GET http://evil.example/ HTTP/1.1\r\n\r\n", host))
	if status != 200 || body != "ok" {
		t.Errorf("got %d, %q", status, body)
	}
	want := "POST /x HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
	if got := origin.bytes(); got != want {
		t.Errorf("the origin got\n%q, want\n%q", got, want)
	}
	l := p.lines(1)[0]
	if l.Scheme != "http" || l.Method != "POST" || l.Action != "allow" || l.Up != int64(len(want)) || l.Down != int64(len(ok200)) {
		t.Errorf("audit line %+v", l)
	}
}

// A real client: Go's, with a body and over several connections.
func TestPlainClient(t *testing.T) {
	l, port := listen(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	p := start(t, options{allow: []string{fmt.Sprintf("http://plain.example:%d", port)}})
	p.names.set("plain.example", []string{"127.0.0.1"})
	client := &http.Client{Transport: &http.Transport{
		Proxy:       http.ProxyURL(&url.URL{Scheme: "http", Host: "p"}),
		DialContext: func(context.Context, string, string) (net.Conn, error) { return p.client(), nil },
	}}
	sent := strings.Repeat("x", 300<<10)
	for range 3 {
		response, err := client.Post(fmt.Sprintf("http://plain.example:%d/", port), "text/plain", strings.NewReader(sent))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || string(got) != sent || response.StatusCode != 200 {
			t.Fatalf("%d, %d bytes, %v", response.StatusCode, len(got), err)
		}
	}
}

// Proves: S-079, S-083. Denials before there is a connection: the status, the
// header, the audit, and nothing at the origin.
func TestPlainRefused(t *testing.T) {
	origin := recordingOrigin(t, "", "")
	port := origin.port
	p := start(t, options{
		allow: []string{"plain.example", "https://tls.example", "*.sub.example"}, ports: []uint16{port}, deny: []string{"no.sub.example"},
		limits: egress.Limits{Upload: 1000},
	})
	for _, name := range []string{"plain.example", "tls.example"} {
		p.names.set(name, []string{"127.0.0.1"})
	}
	tests := []struct {
		name, request string
		status        int
		code          errcode.Code
	}{
		{"unknown host", fmt.Sprintf("GET http://other.example:%d/ HTTP/1.1\r\n\r\n", port), 403, errcode.EgressHostDenied},
		{"denied below a wildcard", fmt.Sprintf("GET http://no.sub.example:%d/ HTTP/1.1\r\n\r\n", port), 403, errcode.EgressHostDenied},
		{"other port", "GET http://plain.example/ HTTP/1.1\r\n\r\n", 403, errcode.EgressPortDenied},
		{"https only", fmt.Sprintf("GET http://tls.example:%d/ HTTP/1.1\r\n\r\n", port), 403, errcode.EgressSchemeDenied},
		{"CONNECT to an unknown host", fmt.Sprintf("CONNECT other.example:%d HTTP/1.1\r\n\r\n", port), 403, errcode.EgressHostDenied},
		{"Expect", fmt.Sprintf("POST http://plain.example:%d/ HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", port), 417, errcode.EgressBadRequest},
		{"websocket", fmt.Sprintf("GET http://plain.example:%d/ HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", port), 403, errcode.EgressBadRequest},
		{"chunked", fmt.Sprintf("POST http://plain.example:%d/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", port), 403, errcode.EgressBadRequest},
		{"LF alone, no end", "GET / HTTP/1.1\n", 403, errcode.EgressBadRequest},
		{"body over the limit", fmt.Sprintf("POST http://plain.example:%d/ HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", port), 503, errcode.EgressLimitExceeded},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, code, body := p.ask(tt.request)
			if status != tt.status || code != string(tt.code) || !strings.HasPrefix(body, "sage: ") {
				t.Errorf("got %d, %q, %q; want %d, %q", status, code, body, tt.status, tt.code)
			}
			if l := p.lines(i + 1)[i]; l.Action != "deny" || l.Code != tt.code || l.Reason == "" {
				t.Errorf("audit line %+v", l)
			}
		})
	}
	if origin.connections() != 0 || len(p.names.questions()) != 0 {
		t.Errorf("%d connections to the origin, asked %v", origin.connections(), p.names.questions())
	}
}

// Proves: S-080. A redirect is a new request: to a private address it goes
// nowhere.
func TestRedirect(t *testing.T) {
	l, port := listen(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/", http.StatusFound)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	p := start(t, options{allow: []string{fmt.Sprintf("http://plain.example:%d", port)}})
	p.names.set("plain.example", []string{"127.0.0.1"})
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "p"}), DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return p.client(), nil },
	}}
	response, err := client.Get(fmt.Sprintf("http://plain.example:%d/", port))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != 403 || response.Header.Get("X-Sage-Deny") != string(errcode.EgressHostDenied) {
		t.Errorf("got %d, %v", response.StatusCode, response.Header)
	}
}

// transparentClient resolves a name by the stub and connects to what it says.
func (p *proxyUnderTest) transparentClient(name string, port uint16) net.Conn {
	p.t.Helper()
	addr, err := p.resolve(name)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.dial(egress.KindTransparent, netip.AddrPortFrom(addr, port))
}

// Proves: the transparent path of design.md section 4. The name that an address
// was given out for is the one that counts; what the client says must be equal.
func TestTransparent(t *testing.T) {
	tlsPort, config := tlsOrigin(t, nil, "origin.example")
	origin := recordingOrigin(t, "\r\n\r\n", ok200)
	db, dbPort := listen(t)
	go func() {
		for {
			c, err := db.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "ready")
			_ = c.Close()
		}
	}()
	p := start(t, options{
		transparent: true, ports: []uint16{tlsPort, origin.port},
		allow: []string{"origin.example", "other.example", "https://secure.example", fmt.Sprintf("tcp://db.example:%d", dbPort)},
	})
	for _, name := range []string{"origin.example", "other.example", "secure.example", "db.example"} {
		p.names.set(name, []string{"127.0.0.1"})
	}
	if body, err := get(p.transparentClient("origin.example", tlsPort), config); err != nil || body != "hello from origin.example" {
		t.Errorf("TLS: %q, %v", body, err)
	}
	if got, err := io.ReadAll(p.transparentClient("db.example", dbPort)); err != nil || string(got) != "ready" {
		t.Errorf("tcp: %q, %v", got, err)
	}
	asked := len(p.names.questions())
	c := p.transparentClient("other.example", tlsPort)
	if alert, _ := alertFrom(t, c, rawHello(sni("origin.example"))); alert != 112 {
		t.Errorf("another name: alert %d", alert)
	}
	http := func(name, host string) string {
		c := p.transparentClient(name, origin.port)
		_, _ = fmt.Fprintf(c, "GET /x HTTP/1.1\r\nHost: %s:%d\r\n\r\n", host, origin.port)
		got, _ := io.ReadAll(c)
		return string(got)
	}
	if got := http("origin.example", "other.example"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("another Host: %q", got)
	}
	if got := http("secure.example", "secure.example"); !strings.Contains(got, "egress_scheme_denied") {
		t.Errorf("http to a host of https: %q", got)
	}
	if n := len(p.names.questions()); n != asked {
		t.Errorf("what was refused made lookups: %v", p.names.questions()[asked:])
	}
	if got := http("origin.example", "origin.example"); got != ok200 {
		t.Errorf("http: %q", got)
	}
	want := fmt.Sprintf("GET /x HTTP/1.1\r\nHost: origin.example:%d\r\nConnection: close\r\n\r\n", origin.port)
	if origin.bytes() != want {
		t.Errorf("the origin got %q, want %q", origin.bytes(), want)
	}
	if _, err := p.resolve("evil.example"); err == nil {
		t.Error("a name that is not allowed has an address")
	}
	c = p.dial(egress.KindTransparent, netip.MustParseAddrPort("198.19.255.1:443"))
	if got, err := io.ReadAll(c); len(got) != 0 {
		t.Errorf("an address without a name: %q, %v", got, err)
	}
}

// upstreamProxy is a proxy that speaks CONNECT and writes down what it is asked.
func upstreamProxy(t *testing.T, answer string) (port uint16, asked chan string) {
	t.Helper()
	l, port := listen(t)
	return port, serveUpstream(l, answer)
}

// secureUpstream is one that speaks TLS.
func secureUpstream(t *testing.T, cert tls.Certificate) (port uint16) {
	t.Helper()
	l, port := listen(t)
	serveUpstream(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}}), "")
	return port
}

func serveUpstream(l net.Listener, answer string) (asked chan string) {
	asked = make(chan string, 100)
	acceptEach(l, func(c net.Conn) {
		b := make([]byte, 4096)
		n, err := c.Read(b)
		if err != nil {
			return
		}
		line, _, _ := strings.Cut(string(b[:n]), "\r\n")
		asked <- line
		target := strings.Fields(line)[1]
		if answer != "" {
			_, _ = io.WriteString(c, answer)
			return
		}
		o, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		defer o.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nVia: x\r\n\r\n")
		go func() { _, _ = io.Copy(o, c); _ = o.(*net.TCPConn).CloseWrite() }()
		_, _ = io.Copy(c, o)
	})
	return asked
}

// Proves: S-065, S-067, S-086. Everything goes through the upstream proxy, by
// the checked address; what that refuses is not tried in another way.
func TestUpstream(t *testing.T) {
	port, config := tlsOrigin(t, nil, "origin.example")
	up, asked := upstreamProxy(t, "")
	p := start(t, options{upstream: &egress.Upstream{Scheme: "http", Host: "up.example", Port: up}, ports: []uint16{port}})
	p.names.set("up.example", []string{"127.0.0.1"})
	p.names.set("origin.example", []string{"127.0.0.1"})
	p.names.set("private.example", []string{"10.0.0.1"})
	if body, err := get(p.connect(fmt.Sprintf("origin.example:%d", port)), config); err != nil || body != "hello from origin.example" {
		t.Errorf("got %q, %v", body, err)
	}
	if got, want := <-asked, fmt.Sprintf("CONNECT 127.0.0.1:%d HTTP/1.1", port); got != want {
		t.Errorf("upstream was asked %q, want %q", got, want)
	}
	if l := p.lines(1)[0]; l.Upstream != fmt.Sprintf("up.example:%d", up) {
		t.Errorf("audit line %+v", l)
	}
	if status, code, _ := p.ask(fmt.Sprintf("CONNECT private.example:%d HTTP/1.1\r\n\r\n", port)); status != 403 || code != string(errcode.EgressAddressDenied) {
		t.Errorf("private address: %d, %s", status, code)
	}

	refusing, _ := upstreamProxy(t, "HTTP/1.1 403 Forbidden\r\n\r\n")
	origin := recordingOrigin(t, "", "")
	p = start(t, options{upstream: &egress.Upstream{Scheme: "http", Host: "127.0.0.1", Port: refusing}, ports: []uint16{origin.port}})
	p.names.set("origin.example", []string{"127.0.0.1"})
	status, code, _ := p.ask(fmt.Sprintf("CONNECT origin.example:%d HTTP/1.1\r\n\r\n", origin.port))
	if status != 502 || code != string(errcode.EgressUpstreamRefused) || origin.connections() != 0 {
		t.Errorf("refused upstream: %d, %s, %d connections to the origin", status, code, origin.connections())
	}
}

// A response that is whole arrives whole, however slowly it is read and
// whatever else the client has sent.
func TestSlowReader(t *testing.T) {
	const size = 6 << 20
	l, port := listen(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) })}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	p := start(t, options{allow: []string{fmt.Sprintf("http://plain.example:%d", port)}})
	p.names.set("plain.example", []string{"127.0.0.1"})
	c := p.client()
	_, _ = fmt.Fprintf(c, "GET http://plain.example:%d/ HTTP/1.1\r\n\r\nand more that is no request", port)
	<-time.After(1500 * time.Millisecond)
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	chunk := make([]byte, 256<<10)
	total := 0
	for {
		n, err := response.Body.Read(chunk)
		total += n
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("after %d bytes: %v", total, err)
		}
		<-time.After(10 * time.Millisecond)
	}
	if total != size {
		t.Errorf("received %d bytes, want %d", total, size)
	}
}

// An origin that fails before it has answered is told to the client in HTTP,
// and so is the end of the time.
func TestNoAnswer(t *testing.T) {
	l, port := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1000))
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}()
	silent := recordingOrigin(t, "", "")
	p := start(t, options{allow: []string{"http://plain.example"}, ports: []uint16{port, silent.port}, limits: egress.Limits{Wall: time.Second}})
	p.names.set("plain.example", []string{"127.0.0.1"})
	for port, want := range map[uint16]int{port: 502, silent.port: 504} {
		status, code, body := p.ask(fmt.Sprintf("GET http://plain.example:%d/ HTTP/1.1\r\n\r\n", port))
		if status != want || code == "" {
			t.Errorf("got %d, %q, %q; want %d", status, code, body, want)
		}
	}
}
