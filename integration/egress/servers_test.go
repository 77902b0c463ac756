//go:build kernel

package egress

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sage-sandbox/sage/integration/harness"
)

type (
	neturl    = url.URL
	proxyFunc = func(*http.Request) (*url.URL, error)
	dialFunc  = func(context.Context, string, string) (net.Conn, error)
)

func mustURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}

// world is what a container could reach: a resolver that knows every name, and
// servers that all of them lead to.
type world struct {
	ip       string
	resolver string // address
	https    int    // ports
	http     int
	dir      string // in the container too, at the same path
	mu       sync.Mutex
	asked    []string // of the resolver
	served   []string // hosts, by the servers
}

// newWorld makes one in the network namespace of the calling thread.
func newWorld(t *testing.T, ip string) *world {
	t.Helper()
	w := &world{ip: ip, dir: harness.TempDir(t)}
	cert := w.certificate(t)
	w.resolver = w.resolve(t)
	w.https = w.serve(t, &tls.Config{Certificates: []tls.Certificate{cert}})
	w.http = w.serve(t, nil)
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	// A copy: the test binary's own folder is for its user alone.
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "client"), data, 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"allowed.test", "denied.test", "*.wild.test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(filepath.Join(w.dir, "ca.pem"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (w *world) serve(t *testing.T, c *tls.Config) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", w.ip+":0")
	if err != nil {
		t.Fatal(err)
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
	t.Cleanup(func() { _ = s.Close() })
	return port
}

func (w *world) resolve(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", w.ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
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
	return conn.LocalAddr().String()
}

func (w *world) answer(question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	w.note(&w.asked, strings.TrimSuffix(q.Name.String(), "."))
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if q.Type == dnsmessage.TypeA {
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
			Body:   &dnsmessage.AResource{A: [4]byte(net.ParseIP(w.ip).To4())},
		})
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
}

func (w *world) note(list *[]string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, text)
}

// saw tells whether something of a list was for a name.
func (w *world) saw(list *[]string, name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(*list, func(s string) bool { return strings.Contains(s, name) })
}
