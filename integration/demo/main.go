// Command demo is the world outside for "make demo": a web server and a resolver
// on loopback, which gives every name the server's address.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"golang.org/x/net/dns/dnsmessage"
)

// main prints the two ports and serves until its standard input ends.
func main() {
	web, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		fail(err)
	}
	names, err := net.ListenPacket("udp4", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		fail(err)
	}
	fmt.Println(web.Addr().(*net.TCPAddr).Port, names.LocalAddr().(*net.UDPAddr).Port) //nolint:forcetypeassert // of that network
	go resolve(names)
	go func() {
		fail(http.Serve(web, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "hello from %s\n", r.Host)
		}))) //nolint:gosec // for one client, on loopback
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "demo:", err)
	os.Exit(1)
}

func resolve(conn net.PacketConn) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			fail(err)
		}
		if text, err := answer(buffer[:n]); err == nil {
			_, _ = conn.WriteTo(text, from)
		}
	}
}

// answer is 127.0.0.1 for a question of type A, and nothing for any other.
func answer(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil, fmt.Errorf("no question: %w", err)
	}
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	if q.Type == dnsmessage.TypeA {
		head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 60}
		m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
	}
	return m.Pack()
}
