package main

import (
	"bufio"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// A role is what a copy of this program does for the comparison of ways to a
// server. Each way has processes of its own, as a proxy has one: what goes on
// inside one process costs less.
var roles = map[string]func(args []string, in io.Reader, out io.Writer) error{
	"origin": origin, "relay": relay, "client": clientLoop,
}

// roleVerb as the first argument makes the program play the role that follows.
const roleVerb = "role"

func play(args []string) error {
	do, ok := roles[args[0]]
	if !ok {
		return fmt.Errorf("no role is called %q", args[0])
	}
	return do(args[1:], os.Stdin, os.Stdout)
}

const originName = "origin.test"

// origin is an HTTPS server, whose path says how many MiB it answers with, and
// a nameserver that has its address for every name. It prints its port and the
// nameserver's address, and serves until its input ends.
func origin(_ []string, in io.Reader, out io.Writer) error {
	cert, err := certificate()
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	names, err := net.ListenPacket("udp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return err
	}
	go resolve(names)
	go func() { _ = http.Serve(l, http.HandlerFunc(answerMiB)) }() //nolint:gosec // its clients are ours
	fmt.Fprintln(out, portOf(l), names.LocalAddr())
	_, err = io.Copy(io.Discard, in)
	return err
}

func portOf(l net.Listener) int {
	addr, _ := l.Addr().(*net.TCPAddr)
	return addr.Port
}

var chunk [1 << 20]byte

func answerMiB(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	for range n {
		if _, err := w.Write(chunk[:]); err != nil {
			return
		}
	}
	if n == 0 {
		_, _ = io.WriteString(w, "ok")
	}
}

func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: originName}, DNSNames: []string{originName},
		NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func resolve(socket net.PacketConn) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := socket.ReadFrom(buffer)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			}}
		}
		if reply, err := m.Pack(); err == nil {
			_, _ = socket.WriteTo(reply, from)
		}
	}
}

// relay passes on to the address args[0] whatever comes, and looks at nothing:
// the least that anything in between can do. It prints its port.
func relay(args []string, in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go relayOne(conn, args[0])
		}
	}()
	fmt.Fprintln(out, portOf(l))
	_, err = io.Copy(io.Discard, in)
	return err
}

func relayOne(client net.Conn, to string) {
	defer client.Close()
	server, err := net.Dial("tcp", to) //nolint:noctx // the plainest relay that there can be
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		if tcp, ok := server.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}()
	_, _ = io.Copy(client, server)
}

// route is a client's way to the origin.
type route struct {
	address string // that it connects to
	target  string // that it asks for there by CONNECT; "" asks for nothing
	tls     *tls.Config
}

// clientLoop does what each line of its input asks for and prints one line of
// nanoseconds for it. args are the address, and the target or "".
func clientLoop(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("client: want address and target")
	}
	// It does no more than a client must: what is compared is what lies between.
	config := &tls.Config{ServerName: originName, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // the server is ours
	r := route{args[0], args[1], config}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var what string
		var n, width int
		if _, err := fmt.Sscan(lines.Text(), &what, &n, &width); err != nil {
			return err
		}
		numbers, err := r.do(what, n, width)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, strings.Trim(fmt.Sprint(numbers), "[]"))
	}
	return lines.Err()
}

func (r *route) do(what string, n, width int) ([]int64, error) {
	switch what {
	case "requests": // one after the other; what each took
		return r.requests(n)
	case "crowd": // width at a time, n each; what all took
		return r.crowd(n, width)
	case "pour": // one of n MiB; what it took
		start := time.Now()
		got, err := r.fetch(n)
		if err == nil && got < int64(n)<<20 {
			err = io.ErrUnexpectedEOF
		}
		return []int64{time.Since(start).Nanoseconds()}, err
	}
	return nil, fmt.Errorf("client: nothing is called %q", what)
}

func (r *route) requests(n int) ([]int64, error) {
	took := make([]int64, n)
	for i := range took {
		start := time.Now()
		if _, err := r.fetch(0); err != nil {
			return nil, err
		}
		took[i] = time.Since(start).Nanoseconds()
	}
	return took, nil
}

func (r *route) crowd(n, width int) ([]int64, error) {
	start := time.Now()
	errs := make(chan error, width)
	for range width {
		go func() {
			_, err := r.requests(n)
			errs <- err
		}()
	}
	var err error
	for range width {
		err = cmp.Or(err, <-errs)
	}
	return []int64{time.Since(start).Nanoseconds()}, err
}

// fetch makes one request on a connection of its own.
func (r *route) fetch(mib int) (int64, error) {
	conn, err := net.Dial("tcp", r.address) //nolint:noctx // what is timed is to do no more than it must
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := r.connect(conn); err != nil {
		return 0, err
	}
	secure := tls.Client(conn, r.tls)
	if _, err := fmt.Fprintf(secure, "GET /%d HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", mib, originName); err != nil {
		return 0, err
	}
	return io.Copy(io.Discard, secure)
}

func (r *route) connect(conn net.Conn) error {
	if r.target == "" {
		return nil
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", r.target); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("CONNECT %s: %s %s", r.target, response.Status, response.Header.Get("X-Sage-Deny"))
	}
	return nil
}
