//go:build kernel

package bridge_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/egress/bridge"
	"github.com/sage-sandbox/sage/internal/sys"
)

// TestNeighbour has another namespace on the same link send to 127.0.0.1 and to
// synthetic addresses, with route_localnet set. A plain listener there is
// reached, so the test knows that the packets arrive.
//
// Proves: S-075 (attack 8).
func TestNeighbour(t *testing.T) {
	b := serve(t, newSpace(t), newGroup(t), own, nil)
	b.proxy(t)
	neighbour := newSpace(t)
	link(t, b.space, neighbour)
	b.sh(t, `for f in all va; do echo 1 >/proc/sys/net/ipv4/conf/$f/route_localnet; echo 0 >/proc/sys/net/ipv4/conf/$f/rp_filter; done`)
	neighbour.sh(t, `echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet; echo 1 >/proc/sys/net/ipv4/conf/vb/route_localnet
		ip route add 127.0.0.0/8 via 10.99.0.1; ip route add 198.18.0.0/15 via 10.99.0.1`)
	var plain net.Listener
	var err error
	b.do(func() { plain, err = net.Listen("tcp4", "0.0.0.0:9999") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	for _, address := range []string{"127.0.0.1:9999", "198.18.7.7:9999"} {
		if conn, err := neighbour.tryDial("tcp", address); err != nil {
			t.Errorf("%s: %v: the test does not reach what is not bound to lo", address, err)
		} else {
			_ = conn.Close()
		}
	}
	for _, address := range []string{"127.0.0.1:3128", "198.18.0.1:53", "198.18.7.7:443", "10.99.0.1:3128", "10.99.0.1:443"} {
		if conn, err := neighbour.tryDial("tcp", address); err == nil {
			_ = conn.Close()
			t.Errorf("%s answers a neighbour", address)
		}
	}
}

// link is a veth pair between two namespaces: va in the first and vb in the other.
func link(t *testing.T, a, b *space) {
	t.Helper()
	var pid int
	b.do(func() { pid = unix.Gettid() })
	a.sh(t, fmt.Sprintf(`ip link add va type veth peer name vb netns /proc/%d/task/%d/ns/net; ip addr add 10.99.0.1/24 dev va; ip link set va up`, os.Getpid(), pid))
	b.sh(t, `ip addr add 10.99.0.2/24 dev vb; ip link set vb up`)
}

// TestShared has clients of two cgroups in one namespace, as containers of a
// pod. Only those of the container's own get to its proxy, in every form.
//
// Proves: S-075 (attack 7).
func TestShared(t *testing.T) {
	s, inside, outside := newSpace(t), newGroup(t), newGroup(t)
	s.sh(t, "ip link set lo up")
	b := serve(t, s, inside, bridge.Options{}, func(c *egress.BridgeConfig) { c.PeerCgroup = inside.id(t) })
	p := b.proxy(t)
	go func() {
		message := make([]byte, 100)
		for {
			_, fd, err := sys.ReceiveFD(int(p.control.Fd()), message)
			if err != nil || fd < 0 {
				return // the end of the test
			}
			_, _ = unix.Write(fd, []byte("served"))
			_ = unix.Close(fd)
		}
	}()
	for _, host := range []string{"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"} {
		address := fmt.Sprintf("%s:%d", host, b.port)
		if got := b.runClient(t, inside, address); got != "served (<nil>)" {
			t.Errorf("%s from the container: saw %q", address, got)
		}
		if got := b.runClient(t, outside, address); strings.Contains(got, "served") {
			t.Errorf("%s from another container: saw %q", address, got)
		}
	}
}

// runClient runs a program in the namespace and in a cgroup.
func (s *space) runClient(t *testing.T, g *group, address string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command("/proc/self/exe", "client", address)
	cmd.Stdout = &out
	s.do(func() { g.start(t, cmd) })
	_ = cmd.Wait()
	return strings.TrimSpace(out.String())
}

// TestNextPort has two bridges in one namespace, and something else there too.
func TestNextPort(t *testing.T) {
	s := newSpace(t)
	s.sh(t, "ip link set lo up")
	var other net.Listener
	var err error
	s.do(func() { other, err = net.Listen("tcp6", "[::1]:3129") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	g := newGroup(t)
	one := serve(t, s, g, bridge.Options{}, nil)
	two := serve(t, s, g, bridge.Options{}, nil)
	if one.port != 3128 || two.port != 3130 {
		t.Errorf("saw ports %d and %d, want 3128 and 3130", one.port, two.port)
	}
}

// TestProxyKilled kills the process that has the proxy's connection. Clients get
// an answer that says so, whether they send a request first or not.
//
// Proves: S-086.
func TestProxyKilled(t *testing.T) {
	b := serve(t, newSpace(t), newGroup(t), own, nil)
	unserved(t, b, "tcp", "127.0.0.1:3128") // before there is one
	control := b.connect(t)
	holder := exec.Command("sleep", "1000")
	holder.ExtraFiles = []*os.File{control}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	_ = control.Close()
	_ = holder.Process.Kill()
	_ = holder.Wait()
	for range 3 {
		unserved(t, b, "tcp", "127.0.0.1:3128")
		unserved(t, b, "unix", filepath.Join(b.folder, "egress.sock"))
	}
	for _, address := range []string{"198.18.3.3:443", "198.18.0.1:53"} {
		conn := b.dial(t, "tcp", address)
		if text, err := io.ReadAll(conn); len(text) > 0 || err != nil {
			t.Errorf("%s: saw %q, %v, want an end", address, text, err)
		}
	}
	p := b.proxy(t) // a start that is tried again finds a bridge that works
	_ = b.dial(t, "tcp", "127.0.0.1:3128")
	p.next(t)
}

func unserved(t *testing.T, b *served, network, address string) {
	t.Helper()
	conn := b.dial(t, network, address)
	if _, err := io.WriteString(conn, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"+strings.Repeat("x", 20_000)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusBadGateway || response.Header.Get("X-Sage-Deny") != "sandbox.egress_unavailable" {
		t.Errorf("%s: saw %s, %v", address, response.Status, response.Header)
	}
	if body, err := io.ReadAll(response.Body); err != nil || len(body) == 0 {
		t.Errorf("%s: body %q, %v", address, body, err)
	}
}

// TestSecondProxy keeps the first: a container's connections go to one process.
func TestSecondProxy(t *testing.T) {
	b := serve(t, newSpace(t), newGroup(t), bridge.Options{Own: true}, nil)
	first, second := b.proxy(t), b.connect(t)
	if n, err := second.Read(make([]byte, 10)); n > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("second: saw %d bytes, %v, want an end", n, err)
	}
	_ = b.dial(t, "tcp", "127.0.0.1:3128")
	first.next(t)
}

// TestFlood has clients come by the thousand, first while a proxy takes none and
// then while there is none. The bridge's descriptors and memory stay as they are.
func TestFlood(t *testing.T) {
	b := serve(t, newSpace(t), newGroup(t), own, nil)
	stuck := b.proxy(t)
	before := b.descriptors(t)
	waiting := flood(b, 600)
	time.Sleep(200 * time.Millisecond)
	if got := b.descriptors(t); got > before+1 {
		t.Errorf("with a proxy that is stuck: %d descriptors, want %d and one held", got, before)
	}
	// Every one that waits is served when the proxy goes on.
	for range waiting {
		_, f := stuck.next(t)
		_ = f.Close()
	}
	_ = stuck.control.Close()
	for range 20 {
		flood(b, 500)
	}
	if got := b.descriptors(t); got > before+32 {
		t.Errorf("without a proxy: %d descriptors, want %d and 32 at most", got, before)
	}
	eventually(t, "all descriptors are back", func() bool { return b.descriptors(t) == before-1 })
	if got := b.status(t, "VmRSS"); got > 10<<10 {
		t.Errorf("VmRSS: saw %d KiB after the flood, want 10240 at most", got)
	}
	unserved(t, b, "tcp", "127.0.0.1:3128")
}

// flood connects n times and says nothing. It gives how many got a connection.
func flood(b *served, n int) int {
	made := 0
	b.do(func() {
		for range n {
			conn, err := net.DialTimeout("tcp", "127.0.0.1:3128", 50*time.Millisecond)
			if err != nil {
				break // the backlog is full
			}
			made++
			defer conn.Close()
		}
	})
	return made
}

// TestStuck waits until the bridge has lost patience with a proxy that takes
// nothing, as one that was stopped.
func TestStuck(t *testing.T) {
	b := serve(t, newSpace(t), newGroup(t), own, nil)
	stuck := b.proxy(t)
	begin := time.Now()
	// More than a queue of the kernel's takes (net.unix.max_dgram_qlen).
	var conns []net.Conn
	for range 200 {
		conns = append(conns, b.dial(t, "unix", filepath.Join(b.folder, "egress.sock")))
	}
	unserved(t, b, "unix", filepath.Join(b.folder, "egress.sock"))
	if took := time.Since(begin); took < 4*time.Second || took > 8*time.Second {
		t.Errorf("told after %v, want about 5 s", took)
	}
	_ = conns
	_, f := stuck.next(t)
	_ = f.Close()
}

// TestNoDescriptors has a bridge with hardly more than what it needs to begin.
// It waits for descriptors without spinning, and everybody is told in the end.
func TestNoDescriptors(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `ulimit -n 30; exec "$0" bridge`, program)
	b := serveBy(t, cmd, newSpace(t), newGroup(t), own, nil)
	var conns []net.Conn
	for range 60 {
		conns = append(conns, b.dial(t, "tcp", "127.0.0.1:3128"))
	}
	before := cpuTime(t, b)
	time.Sleep(500 * time.Millisecond)
	if got := b.descriptors(t); got != 30 {
		t.Errorf("descriptors: saw %d, want all 30 in use", got)
	}
	time.Sleep(500 * time.Millisecond)
	if used := cpuTime(t, b) - before; used > 20 {
		t.Errorf("used %d hundredths of a second of one", used)
	}
	for _, conn := range conns {
		if text, err := io.ReadAll(conn); !strings.HasPrefix(string(text), "HTTP/1.1 502 ") {
			t.Errorf("saw %q, %v", text, err)
		}
	}
}

// TestSignals ends the process in the usual way, and stops it for a while: the
// Go runtime handles both by system calls that the filter must know.
func TestSignals(t *testing.T) {
	b := serve(t, newSpace(t), newGroup(t), own, nil)
	_ = b.cmd.Process.Signal(unix.SIGSTOP)
	time.Sleep(50 * time.Millisecond)
	_ = b.cmd.Process.Signal(unix.SIGCONT)
	unserved(t, b, "tcp", "127.0.0.1:3128")
	_ = b.cmd.Process.Signal(unix.SIGTERM)
	if err := <-b.ended; err == nil || err.Error() != "signal: terminated" {
		t.Errorf("saw %v, want an end by SIGTERM", err)
	}
}

// cpuTime is in clock ticks, of which there are 100 a second.
func cpuTime(t *testing.T, b *served) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text))
	var user, system int
	_, _ = fmt.Sscan(fields[13], &user)
	_, _ = fmt.Sscan(fields[14], &system)
	return user + system
}

// TestCycles makes and ends bridges, and looks for what they leave in the
// process that made them and on the machine.
//
// Proves: S-089.
func TestCycles(t *testing.T) {
	s, g := newSpace(t), newGroup(t)
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := count()
	for i := range 500 {
		b := serve(t, s, g, own, nil)
		if i%2 == 0 {
			_ = b.cmd.Process.Kill()
		} else {
			g.empty(t)
		}
		<-b.ended //nolint:errcheck // how it ends is asked elsewhere
		if g.cmd == nil {
			g.cmd = exec.Command("sleep", "1000")
			g.start(t, g.cmd)
		}
	}
	if after := count(); after > before+2 {
		t.Errorf("descriptors: %d before, %d after", before, after)
	}
}
