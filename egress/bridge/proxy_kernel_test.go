//go:build kernel

package bridge_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
)

// realProxy is the product's other process, beside a bridge.
type realProxy struct {
	cmd   *exec.Cmd
	audit string
	took  time.Duration
	ended chan error
}

// startProxy starts the real proxy in this namespace, as for a container without
// a network of its own. origin.test is at 127.0.0.1, which the policy opens.
func startProxy(t *testing.T, b *served, port int) *realProxy {
	t.Helper()
	p := &realProxy{audit: filepath.Join(b.folder, "audit"), ended: make(chan error, 1)}
	var rules []egress.Rule
	for _, text := range []string{"http://origin.test", fmt.Sprintf("tcp://origin.test:%d", port)} {
		rule, err := egress.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, rule)
	}
	c := egress.ProxyConfig{
		Version: egress.ConfigVersion,
		Ready:   0, Control: 1, Events: 2, Audit: []int{3, 4}, AuditMax: 1 << 20, Counters: 5, Container: "test", DialsFrom: "host",
		Nameservers: []netip.AddrPort{nameserver(t)}, Reachable: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Policy: egress.Policy{
			Mode: egress.ModeAllowlist, Allow: rules, Ports: []uint16{uint16(port)}, Schemes: []string{"http"}, DenyPrivate: true, ECH: egress.ECHRefuse,
			Limits:      egress.Limits{Wall: 10 * time.Second, Upload: 1 << 20, Download: 1 << 20, Total: 1 << 30, Connections: 64, Active: 32},
			Transparent: true,
		},
	}
	ready, write := pipe(t, 0), pipe(t, 1)
	open := func(name string, size int64) *os.File {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
		if err == nil {
			err = f.Truncate(size)
		}
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	events, err := os.Open(filepath.Join(b.dir, "cgroup.events"))
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(program, "proxy")
	p.cmd.Stderr = os.Stderr
	begin := time.Now()
	launch(t, p.cmd, filepath.Join(b.folder, "root"), c, []*os.File{
		write, b.connect(t), events, open(p.audit, 0), open(p.audit+".1", 0), open(p.audit+".counters", egress.CountersSize),
	})
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	if n, err := ready.Read(make([]byte, 2)); n != 1 {
		t.Fatalf("no ready byte: %v", err)
	}
	p.took = time.Since(begin)
	return p
}

// nameserver knows that origin.test is here.
func nameserver(t *testing.T) netip.AddrPort {
	t.Helper()
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		room := make([]byte, 1500)
		for {
			n, from, err := socket.ReadFrom(room)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(room[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA && q.Name.String() == "origin.test." {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
				}}
			}
			answer, _ := m.Pack()
			_, _ = socket.WriteTo(answer, from)
		}
	}()
	return netip.MustParseAddrPort(socket.LocalAddr().String())
}

func origin(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "origin "+r.Host) })}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return int(netip.MustParseAddrPort(l.Addr().String()).Port())
}

// TestBoth runs both programs as a container has them, confined, with a server,
// a nameserver and a program inside.
//
// Proves: S-076, S-079, S-089, G-05.
func TestBoth(t *testing.T) {
	port := origin(t)
	o := own
	o.Transparent = []uint16{uint16(port)}
	b := serve(t, newSpace(t), newGroup(t), o, nil)
	p := startProxy(t, b, port)
	host := fmt.Sprintf("origin.test:%d", port)

	if got := ask(t, b, "127.0.0.1:3128", "GET http://"+host+"/ HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); got != "200 origin "+host {
		t.Errorf("by the proxy: saw %q", got)
	}
	if got := ask(t, b, "[::1]:3128", "CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n"); !strings.HasPrefix(got, "403 ") {
		t.Errorf("denied: saw %q", got)
	}
	addr := resolve(t, b, "origin.test.")
	if got := ask(t, b, fmt.Sprintf("%s:%d", addr, port), "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); got != "200 origin "+host {
		t.Errorf("by %s: saw %q", addr, got)
	}
	if got := resolve(t, b, "other.test."); got != "RCodeRefused" {
		t.Errorf("other.test: saw %s", got)
	}
	for _, pid := range []int{b.cmd.Process.Pid, p.cmd.Process.Pid} {
		q := served{cmd: &exec.Cmd{Process: &os.Process{Pid: pid}}}
		t.Logf("VmRSS %d KiB (anonymous %d), %d threads", q.status(t, "VmRSS"), q.status(t, "RssAnon"), q.status(t, "Threads"))
		if q.status(t, "Seccomp") != 2 || q.status(t, "NoNewPrivs") != 1 || q.status(t, "Uid") != user {
			t.Errorf("process %d is not confined", pid)
		}
	}
	t.Logf("ready after: bridge %v, proxy %v", b.took, p.took)
	b.empty(t)
	for name, ended := range map[string]chan error{"bridge": b.ended, "proxy": p.ended} {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(time.Second):
			t.Errorf("%s runs on, a second after its container ended", name)
		}
	}
	audit, err := os.ReadFile(p.audit)
	if err != nil || strings.Count(string(audit), "\n") != 4 {
		t.Errorf("audit: %v, saw\n%s\nwant four lines", err, audit)
	}
}

// TestRealProxyKilled kills the real proxy while it serves.
//
// Proves: S-086.
func TestRealProxyKilled(t *testing.T) {
	port := origin(t)
	b := serve(t, newSpace(t), newGroup(t), own, nil)
	p := startProxy(t, b, port)
	q := served{cmd: p.cmd}
	t.Logf("ready after: bridge %v, proxy %v; proxy idle VmRSS %d KiB (anonymous %d KiB), %d threads", b.took, p.took, q.status(t, "VmRSS"), q.status(t, "RssAnon"), q.status(t, "Threads"))
	t.Logf("time on a processor by then: bridge %v, proxy %v", b.onCPU(t), q.onCPU(t))
	_ = unix.Kill(p.cmd.Process.Pid, unix.SIGKILL)
	<-p.ended //nolint:errcheck // how it ends is asked elsewhere
	unserved(t, b, "tcp", "127.0.0.1:3128")
}

// ask sends a request from inside and gives status and body.
func ask(t *testing.T, b *served, address, request string) string {
	t.Helper()
	conn := b.dial(t, "tcp", address)
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %s", response.StatusCode, body)
}

// resolve asks the stub resolver for an address, and gives that or the code.
func resolve(t *testing.T, b *served, name string) string {
	t.Helper()
	question := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	packed, err := question.Pack()
	if err != nil {
		t.Fatal(err)
	}
	conn := b.dial(t, "udp", "198.18.0.1:53")
	if _, err := conn.Write(packed); err != nil {
		t.Fatal(err)
	}
	room := make([]byte, 1500)
	n, err := conn.Read(room)
	if err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(room[:n]); err != nil {
		t.Fatal(err)
	}
	if len(m.Answers) != 1 {
		return m.RCode.String()
	}
	a, _ := m.Answers[0].Body.(*dnsmessage.AResource)
	return netip.AddrFrom4(a.A).String()
}
