package proxy

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/sys"
)

// proxyUnderTest is Serve as the product runs it, with the end of the control
// socket that is the bridge's in the hands of the test.
type proxyUnderTest struct {
	t      testing.TB
	bridge int // the bridge's end
	mu     sync.Mutex
	audit  [2]string
	names  *nameserver
	ended  chan error
	words  []uint64
	dns    string // where the stub resolver answers
}

// options of a proxy under test; a zero field is a usual value.
type options struct {
	allow, deny []string
	ports       []uint16
	schemes     []string
	limits      egress.Limits
	ech         egress.ECH
	upstream    *egress.Upstream
	roots       []byte
	reachable   []string
	transparent bool
	private     bool // do not deny private addresses
	auditMax    int64
	servers     []netip.AddrPort // of names, before the test's own
	// process runs the built program in place of Serve, if it is set.
	process func(p *proxyUnderTest, config egress.ProxyConfig)
}

func rules(t testing.TB, texts []string) []egress.Rule {
	t.Helper()
	var all []egress.Rule
	for _, text := range texts {
		r, err := egress.ParseRule(text)
		if err != nil {
			t.Fatalf("rule %q: %v", text, err)
		}
		all = append(all, r)
	}
	return all
}

func usual(l egress.Limits) egress.Limits {
	set := func(v *int64, usual int64) {
		if *v == 0 {
			*v = usual
		}
	}
	set((*int64)(&l.Wall), int64(20*time.Second))
	set(&l.Upload, 1<<30)
	set(&l.Download, 8<<30)
	if l.Connections == 0 {
		l.Connections = 64
	}
	if l.Active == 0 {
		l.Active = 32
	}
	return l
}

// start runs a proxy until the test ends.
func start(t testing.TB, o options) *proxyUnderTest {
	t.Helper()
	p := &proxyUnderTest{t: t, names: newNameserver(t), ended: make(chan error, 1)}
	dir := t.TempDir()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.bridge = pair[0]
	config := egress.ProxyConfig{
		Version: egress.ConfigVersion, Control: pair[1], Events: -1, Counters: -1, AuditMax: 1 << 20,
		Container: "c1", DialsFrom: "host", Nameservers: append(o.servers, p.names.addr), Roots: o.roots,
		Policy: egress.Policy{
			Mode: egress.ModeAllowlist, Allow: rules(t, o.allow), Deny: rules(t, o.deny), Ports: o.ports,
			Schemes: []string{"https", "http"}, DenyPrivate: !o.private, ECH: egress.ECHRefuse, Limits: usual(o.limits),
			Transparent: o.transparent, Upstream: o.upstream,
		},
	}
	if o.upstream != nil {
		config.Policy.Mode = egress.ModeProxy
	}
	if o.schemes != nil {
		config.Policy.Schemes = o.schemes
	}
	if o.ech != "" {
		config.Policy.ECH = o.ech
	}
	if o.auditMax != 0 {
		config.AuditMax = o.auditMax
	}
	if o.reachable == nil {
		o.reachable = []string{"127.0.0.0/8"}
	}
	for _, text := range o.reachable {
		config.Reachable = append(config.Reachable, netip.MustParsePrefix(text))
	}
	for i := range p.audit {
		p.audit[i] = filepath.Join(dir, fmt.Sprintf("audit.%d", i))
		config.Audit = append(config.Audit, open(t, p.audit[i], os.O_RDWR|os.O_APPEND|os.O_CREATE))
	}
	config.Counters = open(t, filepath.Join(dir, "counters"), os.O_RDWR|os.O_CREATE)
	if err := unix.Ftruncate(config.Counters, egress.CountersSize); err != nil {
		t.Fatal(err)
	}
	if p.words, err = sys.MapWords(config.Counters, int(egress.NumCounters)); err != nil {
		t.Fatal(err)
	}
	ready, ours := pipePair(t)
	config.Ready = ours
	if o.process != nil {
		o.process(p, config)
	} else {
		p.run(config)
	}
	dns := -1
	if o.transparent {
		dns = p.listenDNS()
	}
	p.send([]byte(egress.Greeting), dns)
	if n, err := ready.Read(make([]byte, 2)); n != 1 || err != nil {
		t.Fatalf("ready: %d bytes, %v; the proxy ended: %v", n, err, <-p.ended)
	}
	return p
}

func pipePair(t testing.TB) (*os.File, int) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r := os.NewFile(uintptr(fds[0]), "ready")
	t.Cleanup(func() { _ = r.Close() })
	return r, fds[1]
}

func open(t testing.TB, path string, flags int) int {
	t.Helper()
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func (p *proxyUnderTest) run(config egress.ProxyConfig) {
	ctx, cancel := context.WithCancel(context.Background())
	// As the process gets it: through JSON.
	text, err := json.Marshal(config)
	if err != nil {
		p.t.Fatal(err)
	}
	read, err := egress.Decode[egress.ProxyConfig](text)
	if err != nil {
		p.t.Fatal(err)
	}
	go func() { p.ended <- Serve(ctx, read); close(p.ended) }()
	p.t.Cleanup(func() {
		cancel()
		p.hangUp()
		select {
		case err := <-p.ended:
			if err != nil {
				p.t.Errorf("Serve: %v", err)
			}
		case <-time.After(5 * time.Second):
			p.t.Error("the proxy does not end")
		}
	})
}

// hangUp closes the bridge's end.
func (p *proxyUnderTest) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bridge >= 0 {
		_ = unix.Close(p.bridge)
		p.bridge = -1
	}
}

// send passes one message, and a descriptor if it is not negative, which it
// closes on this side.
func (p *proxyUnderTest) send(message []byte, fd int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bridge < 0 {
		closeFD(fd)
		return
	}
	var oob []byte
	if fd >= 0 {
		oob = unix.UnixRights(fd)
		defer unix.Close(fd)
	}
	if err := unix.Sendmsg(p.bridge, message, oob, nil, 0); err != nil {
		p.t.Errorf("send to the proxy: %v", err)
	}
}

// dial gives a client's end of a connection that arrived by kind, made to the
// loopback: a real TCP socket, accepted and handed over as the bridge does it.
func (p *proxyUnderTest) dial(kind egress.Kind, local netip.AddrPort) *net.TCPConn {
	p.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = client.Close() })
	server, err := l.Accept()
	if err != nil {
		p.t.Fatal(err)
	}
	defer server.Close()
	file, err := server.(*net.TCPConn).File()
	if err != nil {
		p.t.Fatal(err)
	}
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	_ = file.Close()
	if err == nil {
		err = unix.SetNonblock(fd, true) // as the bridge accepts
	}
	if err != nil {
		p.t.Fatal(err)
	}
	message, err := egress.Arrival{Kind: kind, Local: local}.AppendBinary(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.send(message, fd)
	_ = client.SetDeadline(time.Now().Add(15 * time.Second))
	return client.(*net.TCPConn)
}

func (p *proxyUnderTest) client() *net.TCPConn {
	return p.dial(egress.KindProxy, netip.MustParseAddrPort("127.0.0.1:3128"))
}

// ask sends bytes and gives the response to them.
func (p *proxyUnderTest) ask(request string) (status int, code, body string) {
	p.t.Helper()
	c := p.client()
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		p.t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		p.t.Fatalf("response to %.60q: %v", request, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("X-Sage-Deny"), string(text)
}

// connect asks for a tunnel and fails the test if there is none.
func (p *proxyUnderTest) connect(target string) *net.TCPConn {
	p.t.Helper()
	c := p.client()
	if err := connectOn(c, target); err != nil {
		p.t.Fatal(err)
	}
	return c
}

func connectOn(c net.Conn, target string) error {
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", target); err != nil {
		return err
	}
	got := make([]byte, len(established))
	n, err := io.ReadFull(c, got)
	if err != nil || string(got) != established {
		rest := make([]byte, 500)
		m, _ := c.Read(rest)
		return fmt.Errorf("CONNECT %s: %w: %q", target, err, string(got[:n])+string(rest[:m]))
	}
	return nil
}

// lines waits until n audit lines are there, and gives them.
func (p *proxyUnderTest) lines(n int) []egress.AuditLine {
	p.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		var all []egress.AuditLine
		for _, path := range p.audit {
			text, err := os.ReadFile(path)
			if err != nil {
				p.t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				var l egress.AuditLine
				if err := json.Unmarshal([]byte(line), &l); err != nil {
					p.t.Fatalf("audit line %q: %v", line, err)
				}
				all = append(all, l)
			}
		}
		if len(all) >= n {
			return all
		}
		if time.Now().After(end) {
			p.t.Fatalf("saw %d audit lines, want %d: %+v", len(all), n, all)
		}
	}
}

// count reads one counter through a mapping, as others do.
func (p *proxyUnderTest) count(c egress.Counter) int64 {
	return int64(atomic.LoadUint64(&p.words[c]))
}

// waitFor polls until ok.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// nameserver is a DNS server that writes down what it is asked.
type nameserver struct {
	addr    netip.AddrPort
	mu      sync.Mutex
	answers map[string][][]string // name to addresses; one list after the other
	seen    map[string]int
	asked   []string
	silent  bool
}

func newNameserver(t testing.TB) *nameserver {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	n := &nameserver{addr: netip.MustParseAddrPort(socket.LocalAddr().String()), answers: map[string][][]string{}, seen: map[string]int{}}
	go func() {
		b := make([]byte, 1500)
		for {
			size, from, err := socket.ReadFrom(b)
			if err != nil {
				return
			}
			if reply := n.reply(b[:size]); reply != nil {
				_, _ = socket.WriteTo(reply, from)
			}
		}
	}()
	return n
}

// set gives a name addresses; with more than one list, each lookup takes the
// next, and the last stays.
func (n *nameserver) set(name string, lists ...[]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers[name] = lists
}

func (n *nameserver) questions() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.asked...)
}

func (n *nameserver) reply(packet []byte) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	var m dnsmessage.Message
	if m.Unpack(packet) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	n.asked = append(n.asked, strings.TrimPrefix(q.Type.String(), "Type")+" "+q.Name.String())
	if n.silent {
		return nil
	}
	m.Response, m.Additionals = true, nil
	lists, known := n.answers[name]
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	} else {
		for _, text := range lists[0] {
			addr := netip.MustParseAddr(text)
			h := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}
			switch {
			case addr.Is4() && q.Type == dnsmessage.TypeA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: addr.As4()}})
			case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
			}
		}
		// Both questions of one lookup see the same list.
		if n.seen[name]++; n.seen[name]%2 == 0 && len(lists) > 1 {
			n.answers[name] = lists[1:]
		}
	}
	reply, err := m.Pack()
	if err != nil {
		return nil
	}
	return reply
}

func certFor(t testing.TB, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: names, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// listen makes a listener of the loopback and gives its port.
func listen(t testing.TB) (net.Listener, uint16) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, netip.MustParseAddrPort(l.Addr().String()).Port()
}

// recorded is an origin that keeps every byte that it got.
type recorded struct {
	net.Listener
	port uint16
	mu   sync.Mutex
	got  []byte
	came int
}

// recordingOrigin accepts, keeps what comes and answers with answer once it has
// seen want; after an answer in HTTP it ends its side.
func recordingOrigin(t testing.TB, want, answer string) *recorded {
	t.Helper()
	l, port := listen(t)
	r := &recorded{Listener: l, port: port}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.came++
			r.mu.Unlock()
			go r.serve(c, want, answer)
		}
	}()
	return r
}

func (r *recorded) serve(c net.Conn, want, answer string) {
	defer c.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := c.Read(b)
		r.mu.Lock()
		r.got = append(r.got, b[:n]...)
		all := string(r.got)
		r.mu.Unlock()
		if err != nil {
			return
		}
		if answer != "" && strings.Contains(all, want) {
			_, _ = io.WriteString(c, answer)
			if strings.HasPrefix(answer, "HTTP/") {
				_ = c.(*net.TCPConn).CloseWrite()
			}
			answer = ""
		}
	}
}

func (r *recorded) bytes() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.got)
}

func (r *recorded) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.came
}

// listenDNS makes the stub resolver's socket and gives the descriptor to send.
func (p *proxyUnderTest) listenDNS() int {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	defer socket.Close()
	p.dns = socket.LocalAddr().String()
	file, err := socket.(*net.UDPConn).File()
	if err != nil {
		p.t.Fatal(err)
	}
	defer file.Close()
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	return fd
}

// resolve asks the stub resolver as a program in the container would.
func (p *proxyUnderTest) resolve(name string) (netip.Addr, error) {
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", p.dns)
	}}
	addrs, err := r.LookupNetIP(context.Background(), "ip4", name+".")
	if err != nil {
		return netip.Addr{}, err
	}
	return addrs[0].Unmap(), nil
}

// acceptEach serves every connection that comes, beside the others, and closes
// it then.
func acceptEach(l net.Listener, serve func(c net.Conn)) {
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
}
