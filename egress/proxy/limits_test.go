package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
)

// pouring is a server that sends size bytes to whoever connects, and counts
// what it gets. After more than one byte it ends its side.
func pouring(t testing.TB, size int) (port uint16, got chan int64) {
	t.Helper()
	l, port := listen(t)
	got = make(chan int64, 100)
	acceptEach(l, func(c net.Conn) {
		go func() {
			n, _ := io.Copy(io.Discard, c)
			got <- n
		}()
		chunk := make([]byte, 64<<10)
		for left := size; left > 0; left -= len(chunk) {
			if _, err := c.Write(chunk[:min(left, len(chunk))]); err != nil {
				return
			}
		}
		if size > 1 {
			_ = c.(*net.TCPConn).CloseWrite()
		}
		<-time.After(3 * time.Second)
	})
	return port, got
}

func tcpProxy(t *testing.T, port uint16, l egress.Limits) (*proxyUnderTest, string) {
	t.Helper()
	target := fmt.Sprintf("db.example:%d", port)
	p := start(t, options{allow: []string{"tcp://" + target}, limits: l})
	p.names.set("db.example", []string{"127.0.0.1"})
	return p, target
}

// Proves: S-074. A byte over the limit is not delivered, one at it is; the end
// is an error to the peer, and no end in good order.
func TestBytesDown(t *testing.T) {
	for _, size := range []int{1 << 20, 1<<20 + 1, 5 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			port, _ := pouring(t, size)
			p, target := tcpProxy(t, port, egress.Limits{Download: 1 << 20})
			c := p.connect(target)
			n, err := io.Copy(io.Discard, c)
			_ = c.Close()
			over := size > 1<<20
			if n > 1<<20 || !over && n != 1<<20 || (err != nil) != over {
				t.Errorf("received %d bytes, %v", n, err)
			}
			l := p.lines(1)[0]
			if (l.Code == errcode.EgressLimitExceeded) != over || l.Action != "allow" || l.Down < n {
				t.Errorf("audit line %+v", l)
			}
			if got := p.count(egress.CounterBytesDown); got != l.Down || over && p.count(egress.CounterLimited) != 1 {
				t.Errorf("counted %d bytes, line says %d", got, l.Down)
			}
		})
	}
}

// Proves: S-074.
func TestBytesUp(t *testing.T) {
	port, got := pouring(t, 1)
	p, target := tcpProxy(t, port, egress.Limits{Upload: 100 << 10})
	c := p.connect(target)
	_, _ = c.Write(make([]byte, 1<<20))
	if _, err := io.Copy(io.Discard, c); err == nil {
		t.Error("the end looks like one in good order")
	}
	if n := <-got; n > 100<<10 {
		t.Errorf("the server got %d bytes", n)
	}
	if l := p.lines(1)[0]; l.Code != errcode.EgressLimitExceeded || l.Up > 100<<10 {
		t.Errorf("audit line %+v", l)
	}
}

// The budget is one for all connections of the container, exactly.
func TestTotal(t *testing.T) {
	port, _ := pouring(t, 400<<10)
	p, target := tcpProxy(t, port, egress.Limits{Total: 1 << 20})
	var all int64
	for range 4 {
		c := p.connect(target)
		n, _ := io.Copy(io.Discard, c)
		all += n
		_ = c.Close()
	}
	if all > 1<<20 || all < 800<<10 {
		t.Errorf("received %d bytes of a budget of %d", all, 1<<20)
	}
	over := 0
	for _, l := range p.lines(4) { // in the order in which they ended
		if l.Code == errcode.EgressLimitExceeded {
			over++
		}
	}
	if over != 2 {
		t.Errorf("%d of the connections met the limit, want the last two", over)
	}
}

// Proves: S-074, S-088. Time counts from the accept, whatever is done with it.
func TestWall(t *testing.T) {
	port, _ := pouring(t, 1)
	p, target := tcpProxy(t, port, egress.Limits{Wall: 400 * time.Millisecond})
	began := time.Now()
	idle, silent := p.connect(target), p.client()
	_, err := io.Copy(io.Discard, idle)
	if took := time.Since(began); err == nil || took > 3*time.Second {
		t.Errorf("ended after %v with %v", took, err)
	}
	response, err := io.ReadAll(silent)
	if !strings.HasPrefix(string(response), "HTTP/1.1 408 ") || err != nil {
		t.Errorf("a client that says nothing: %q, %v", response, err)
	}
	for _, l := range p.lines(2) {
		if l.Code != errcode.EgressTimeout {
			t.Errorf("audit line %+v", l)
		}
	}
}

// Proves: S-088. Over the number of connections one is refused, legibly; over
// that of active ones it waits; and a place that is free again is used.
func TestConnections(t *testing.T) {
	port, _ := pouring(t, 1)
	p, target := tcpProxy(t, port, egress.Limits{Connections: 3, Active: 1})
	first := p.connect(target)
	second := p.client()
	if _, err := fmt.Fprintf(second, "CONNECT %s HTTP/1.1\r\n\r\n", target); err != nil {
		t.Fatal(err)
	}
	third := p.client()
	waitFor(t, "three connections", func() bool { return p.count(egress.CounterHeld) == 3 })
	status, code, _ := p.ask("GET http://db.example/ HTTP/1.1\r\n\r\n")
	if status != 503 || code != string(errcode.EgressLimitExceeded) {
		t.Errorf("the fourth: %d, %s", status, code)
	}
	_ = second.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if n, err := second.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the second does not wait: %d, %v", n, err)
	}
	_ = first.Close()
	_ = second.SetReadDeadline(time.Now().Add(5 * time.Second))
	if line, err := bufio.NewReader(second).ReadString('\n'); err != nil || line != "HTTP/1.1 200 Connection Established\r\n" {
		t.Errorf("the second, after the first: %q, %v", line, err)
	}
	_ = third.Close()
	waitFor(t, "one connection", func() bool { return p.count(egress.CounterHeld) == 1 })
}

// Proves: 10 000 idle connections take no more than the places that there are,
// and the next client is served as soon as one is free.
func TestIdle(t *testing.T) {
	port, config := tlsOrigin(t, nil, "origin.example")
	target := fmt.Sprintf("origin.example:%d", port)
	p := start(t, options{allow: []string{target}, limits: egress.Limits{Connections: 64}})
	p.names.set("origin.example", []string{"127.0.0.1"})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var held []net.Conn
	for range 10_000 {
		client, server := p.handOver(t, l)
		_ = server.Close()
		if len(held) < 64 {
			held = append(held, client)
		} else {
			_ = client.Close()
		}
	}
	waitFor(t, "all of them", func() bool { return p.count(egress.CounterAccepted) == 10_000 })
	if got := p.count(egress.CounterHeld); got > 64 {
		t.Errorf("holds %d", got)
	}
	for _, c := range held {
		_ = c.Close()
	}
	waitFor(t, "room", func() bool { return p.count(egress.CounterHeld) == 0 })
	if body, err := get(p.connect(target), config); err != nil {
		t.Errorf("afterwards: %q, %v", body, err)
	}
}

// handOver makes one connection by l and passes it on.
func (p *proxyUnderTest) handOver(t *testing.T, l net.Listener) (client, server net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	raw, err := server.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	message, err := egress.Arrival{Kind: egress.KindUnix}.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	var sendErr error
	_ = raw.Control(func(fd uintptr) { sendErr = unix.Sendmsg(p.bridge, message, unix.UnixRights(int(fd)), nil, 0) })
	if sendErr != nil {
		t.Fatal(sendErr)
	}
	return client, server
}

// Proves: Without a descriptor left the proxy refuses, and goes on afterwards.
func TestDescriptors(t *testing.T) {
	port, config := tlsOrigin(t, nil, "origin.example")
	target := fmt.Sprintf("origin.example:%d", port)
	p := start(t, options{allow: []string{target}})
	p.names.set("origin.example", []string{"127.0.0.1"})
	clients := []*net.TCPConn{p.client(), p.client(), p.client()}
	waitFor(t, "clients", func() bool { return p.count(egress.CounterHeld) == 3 })
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = 3 // below every number that is not in use
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	message, _ := egress.Arrival{Kind: egress.KindProxy}.AppendBinary(nil)
	for range 50 {
		_ = unix.Sendmsg(p.bridge, message, unix.UnixRights(0), nil, 0)
	}
	_, err := fmt.Fprintf(clients[0], "CONNECT %s HTTP/1.1\r\n\r\n", target)
	if err != nil {
		t.Error(err)
	}
	response, _ := io.ReadAll(clients[0])
	waitFor(t, "arrivals without a descriptor", func() bool { return p.count(egress.CounterLimited) >= 50 })
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(response), "HTTP/1.1 502 ") {
		t.Errorf("response without descriptors: %q", response)
	}
	if err := connectOn(clients[1], target); err != nil {
		t.Fatalf("afterwards, on an old connection: %v", err)
	}
	if body, err := get(clients[1], config); err != nil {
		t.Errorf("afterwards: %q, %v", body, err)
	}
	if body, err := get(p.connect(target), config); err != nil {
		t.Errorf("afterwards, on a new connection: %q, %v", body, err)
	}
}

// Proves: S-089. When the bridge goes, everything ends: no connection survives.
func TestBridgeGone(t *testing.T) {
	port, _ := pouring(t, 1)
	p, target := tcpProxy(t, port, egress.Limits{})
	tunnel, waiting := p.connect(target), p.client()
	waitFor(t, "both", func() bool { return p.count(egress.CounterHeld) == 2 })
	p.hangUp()
	select {
	case err := <-p.ended:
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
	case <-time.After(time.Second):
		t.Fatal("the proxy lives on for more than a second")
	}
	for _, c := range []net.Conn{tunnel, waiting} {
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a connection lives on")
		}
	}
}

// Proves: a message that no bridge sends does not stop the proxy, and a
// descriptor that is no socket does not either.
func TestArrivals(t *testing.T) {
	port, config := tlsOrigin(t, nil, "origin.example")
	target := fmt.Sprintf("origin.example:%d", port)
	p := start(t, options{allow: []string{target}})
	p.names.set("origin.example", []string{"127.0.0.1"})
	good, _ := egress.Arrival{Kind: egress.KindProxy}.AppendBinary(nil)
	p.send([]byte("x"), -1)
	p.send(good, -1)
	p.send(good[:31], open(t, os.DevNull, os.O_RDWR))
	p.send(good, open(t, os.DevNull, os.O_RDWR))
	p.send(append(good, 0), -1)
	if body, err := get(p.connect(target), config); err != nil {
		t.Errorf("afterwards: %q, %v", body, err)
	}
}

// Proves: the audit is bounded, its lines are whole, and a proxy that comes
// after another goes on in the right file.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	openRecord := func() *record {
		config := egress.ProxyConfig{Counters: -1, AuditMax: 2000, Container: "c1"}
		for _, path := range paths {
			config.Audit = append(config.Audit, open(t, path, os.O_RDWR|os.O_APPEND|os.O_CREATE))
		}
		r, err := newRecord(config)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := openRecord()
	for i := range 100 {
		if i%7 == 0 {
			_ = r.close()
			r = openRecord()
		}
		r.write(egress.AuditLine{Event: egress.EventEgress, MS: int64(i)})
	}
	_ = r.close()
	var last string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 || len(text) > 2000 || !strings.HasSuffix(string(text), "}\n") {
			t.Errorf("%s: %d bytes, %v", path, len(text), err)
		}
		last += string(text)
	}
	for i := 85; i < 100; i++ {
		if !strings.Contains(last, fmt.Sprintf(`"ms":%d}`, i)) && !strings.Contains(last, fmt.Sprintf(`"ms":%d,`, i)) {
			t.Errorf("line %d is lost", i)
		}
	}
}
