//go:build kernel

package clients

import (
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/sage-sandbox/sage/integration/harness"
)

// names are those of all servers: programs believe no wildcard for a whole
// top-level domain.
var names = []string{
	"git.test", "pip.test", "npm.test", "apt.test", "go.test", "cargo.test", "maven.test", "www.test", "proxy.test", "denied.test",
}

// authority is the private CA that the containers trust, as those of a company
// would, and the certificate of all servers.
type authority struct {
	pem    []byte
	server tls.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients' test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "servers"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	rootKey, leafKey := newKey(t), newKey(t)
	rootDER := sign(t, root, root, rootKey, rootKey)
	return &authority{
		pem:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER}),
		server: tls.Certificate{Certificate: [][]byte{sign(t, leaf, root, leafKey, rootKey)}, PrivateKey: leafKey},
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, cert, issuer *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, issuer, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// serveWeb serves every name over https and http, at the ports that programs
// take when they are told none: in this network namespace they are free.
func serveWeb(t *testing.T, a *authority, tree string) {
	t.Helper()
	mux := http.NewServeMux()
	registries(t, mux)
	mux.HandleFunc("/hello.git/", gitOverHTTP(tree))
	mux.Handle("/echo", websocket.Server{Handler: func(c *websocket.Conn) { _, _ = io.Copy(c, c) }})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	quiet := log.New(io.Discard, "", 0)
	secure := &http.Server{Handler: mux, ErrorLog: quiet, TLSConfig: &tls.Config{Certificates: []tls.Certificate{a.server}}}
	plain := &http.Server{Handler: mux, ErrorLog: quiet}
	https, http := listen(t, "443"), listen(t, "80")
	go func() { _ = secure.ServeTLS(https, "", "") }() // with HTTP/2
	go func() { _ = plain.Serve(http) }()
	t.Cleanup(func() { _, _ = secure.Close(), plain.Close() })
}

func listen(t *testing.T, port string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// gitOverHTTP is git's "smart" protocol, which is two commands with a few lines
// of HTTP round them (gitprotocol-http(5)).
func gitOverHTTP(tree string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		command := []string{tree, "git", "upload-pack", "--stateless-rpc"}
		body := io.Reader(r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/info/refs"):
			command = append(command, "--http-backend-info-refs")
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			fmt.Fprint(w, "001e# service=git-upload-pack\n0000")
		case r.Header.Get("Content-Encoding") == "gzip":
			body, _ = gzip.NewReader(r.Body)
			fallthrough
		default:
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		}
		cmd := exec.CommandContext(r.Context(), "chroot", append(command, repository)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_PROTOCOL=" + r.Header.Get("Git-Protocol")}
		cmd.Stdin = body
		out, err := harness.Output(cmd)
		if err != nil {
			log.Print(err)
		}
		_, _ = io.WriteString(w, out)
	}
}

// upstream is the proxy of a company, which is spoken to in TLS. It keeps what it
// was asked for.
type upstream struct {
	mu    sync.Mutex
	asked []string
}

const upstreamPort = "3129"

func serveUpstream(t *testing.T, a *authority) *upstream {
	t.Helper()
	u := &upstream{}
	s := &http.Server{
		Handler: u, TLSConfig: &tls.Config{Certificates: []tls.Certificate{a.server}},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // CONNECT as in HTTP/1.1
	}
	l := listen(t, upstreamPort)
	go func() { _ = s.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = s.Close() })
	return u
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	u.asked = append(u.asked, r.Method+" "+r.Host)
	u.mu.Unlock()
	origin, err := new(net.Dialer).DialContext(r.Context(), "tcp", r.Host)
	if err != nil || r.Method != http.MethodConnect {
		http.Error(w, "no", http.StatusBadGateway)
		return
	}
	defer origin.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(origin, buffered); done <- struct{}{} }()
	go func() { _, _ = io.Copy(client, origin); done <- struct{}{} }()
	<-done
}

func (u *upstream) requests() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.asked
}
