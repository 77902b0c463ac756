package harness

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// WorldOptions say where the servers of a [World] are.
type WorldOptions struct {
	IP string // what names lead to
	// Elsewhere has names that lead to another address.
	Elsewhere map[string]string
	// Resolver is the address and port of the resolver; "" for any port of IP.
	Resolver string
	// Web is the address of the other servers, "" for IP, and HTTPS and HTTP are
	// their ports, 0 for any.
	Web         string
	HTTPS, HTTP int
}

// World is what a container could reach: a resolver that knows every name, and
// servers that say "hello" to whoever comes.
type World struct {
	Resolver    string // address and port
	HTTPS, HTTP int    // ports
	options     WorldOptions
	mu          sync.Mutex
	asked       []string // names, of the resolver
	served      []string // hosts, by the servers
}

// NewWorld makes one in the network namespace of the calling thread.
func NewWorld(tb testing.TB, o WorldOptions) *World {
	tb.Helper()
	o.Web, o.Resolver = cmp.Or(o.Web, o.IP), cmp.Or(o.Resolver, net.JoinHostPort(o.IP, "0"))
	w := &World{options: o}
	cert, err := worldCertificate()
	if err == nil {
		w.Resolver, err = w.resolve(tb)
	}
	if err == nil {
		w.HTTPS, err = w.serve(tb, o.HTTPS, &tls.Config{Certificates: []tls.Certificate{cert}})
	}
	if err == nil {
		w.HTTP, err = w.serve(tb, o.HTTP, nil)
	}
	if err != nil {
		tb.Errorf("harness: servers for containers: %v", err)
	}
	return w
}

// worldCertificate is of the names that tests use, and signed by itself. Not
// every client takes a wildcard right below the root.
var worldCertificate = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tests of sage"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"*.test", "allowed.test", "other.test", "*.wild.test", "pypi.org"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
})

// WorldCA is the certificate, as PEM, that a client has to trust.
func WorldCA(tb testing.TB) []byte {
	tb.Helper()
	cert, err := worldCertificate()
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
}

func (w *World) serve(tb testing.TB, port int, c *tls.Config) (int, error) {
	tb.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(w.options.Web, strconv.Itoa(port)))
	if err != nil {
		return 0, err
	}
	port = l.Addr().(*net.TCPAddr).Port
	if c != nil {
		l = tls.NewListener(l, c)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(res http.ResponseWriter, req *http.Request) {
		w.note(&w.served, req.Host)
		fmt.Fprint(res, "hello")
	})}
	go func() { _ = s.Serve(l) }()
	tb.Cleanup(func() { _ = s.Close() })
	return port, nil
}

func (w *World) resolve(tb testing.TB) (string, error) {
	tb.Helper()
	conn, err := net.ListenPacket("udp", w.options.Resolver)
	if err != nil {
		return "", err
	}
	tb.Cleanup(func() { _ = conn.Close() })
	go func() {
		for buffer := make([]byte, 2048); ; {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := w.answer(buffer[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return conn.LocalAddr().String(), nil
}

func (w *World) answer(question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	w.note(&w.asked, name)
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if q.Type == dnsmessage.TypeA {
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
			Body:   &dnsmessage.AResource{A: w.address(name)},
		})
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
}

func (w *World) address(name string) [4]byte {
	ip, elsewhere := w.options.Elsewhere[name]
	if !elsewhere {
		ip = w.options.IP
	}
	return netip.MustParseAddr(ip).As4()
}

func (w *World) note(list *[]string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, text)
}

// Asked tells whether the resolver was asked for a name that holds the text.
func (w *World) Asked(text string) bool { return w.saw(&w.asked, text) }

// Served tells whether a server was asked for a host that does.
func (w *World) Served(text string) bool { return w.saw(&w.served, text) }

func (w *World) saw(list *[]string, text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(*list, func(s string) bool { return strings.Contains(s, text) })
}
