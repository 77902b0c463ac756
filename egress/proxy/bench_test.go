package proxy

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The same three ways as in ../shared/kit/proxybench: straight to an HTTPS
// origin, through a relay of TCP that looks at nothing, and through the proxy by
// CONNECT. One process holds all ends, so the numbers compare the ways only.

type benchWay struct {
	name string
	dial func() (net.Conn, error)
}

func benchWays(b *testing.B, big int) ([]benchWay, *tls.Config) {
	b.Helper()
	cert, roots := certFor(b, "origin.example")
	l, port := listen(b)
	chunk := make([]byte, 1<<20)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/big" {
			_, _ = io.WriteString(w, "ok")
			return
		}
		for range big {
			_, _ = w.Write(chunk)
		}
	})}
	go func() { _ = server.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}})) }()
	b.Cleanup(func() { _ = server.Close() })
	origin := fmt.Sprintf("127.0.0.1:%d", port)
	target := fmt.Sprintf("origin.example:%d", port)
	p := start(b, options{allow: []string{target}})
	p.names.set("origin.example", []string{"127.0.0.1"})
	relay := plainRelay(b, origin)
	return []benchWay{
		{"direct", func() (net.Conn, error) { return net.Dial("tcp", origin) }},
		{"relay", func() (net.Conn, error) { return net.Dial("tcp", relay) }},
		{"proxy", func() (net.Conn, error) {
			c := p.client()
			return c, connectOn(c, target)
		}},
	}, &tls.Config{ServerName: "origin.example", RootCAs: roots}
}

// cpuTime is what all ends have used so far: unlike the clock, it says something
// on a machine that is busy with other things too.
func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func plainRelay(b *testing.B, to string) string {
	b.Helper()
	l, _ := listen(b)
	acceptEach(l, func(c net.Conn) {
		u, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer u.Close()
		go func() { _, _ = io.Copy(u, c); _ = u.(*net.TCPConn).CloseWrite() }()
		_, _ = io.Copy(c, u)
	})
	return l.Addr().String()
}

func fetch(b *testing.B, w benchWay, config *tls.Config, path string) int64 {
	b.Helper()
	c, err := w.dial()
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	conn := tls.Client(c, config)
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: origin.example\r\nConnection: close\r\n\r\n", path); err != nil {
		b.Fatal(err)
	}
	n, err := io.Copy(io.Discard, conn)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func BenchmarkThroughput(b *testing.B) {
	const size = 64
	ways, config := benchWays(b, size)
	for _, w := range ways {
		b.Run(w.name, func(b *testing.B) {
			b.SetBytes(size << 20)
			began := cpuTime()
			for b.Loop() {
				fetch(b, w, config, "/big")
			}
			b.ReportMetric((cpuTime()-began).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}

func BenchmarkRequest(b *testing.B) {
	ways, config := benchWays(b, 0)
	for _, w := range ways {
		b.Run(w.name, func(b *testing.B) {
			began := cpuTime()
			for b.Loop() {
				fetch(b, w, config, "/")
			}
			b.ReportMetric((cpuTime()-began).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}
