//go:build kernel

package guard

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const freeBind6 = 78 // IPV6_FREEBIND

// reflections send to a port where nobody listens, as if from a stranger, to
// whom the kernel then says so, in words that hold the packet.
func reflections() []attempt {
	free, transparently := numeric(unix.SOL_IPV6, freeBind6, 1), numeric(unix.SOL_IP, unix.IP_TRANSPARENT, 1)
	return []attempt{
		{name: "udp6, no privilege", do: datagram(unix.AF_INET6, 0, to6("::1", 9), free, bound(to6("2600::77", 5000)))},
		{name: "udp6 to its own address", do: datagram(unix.AF_INET6, 0, to6(container6, 9), free, bound(to6("2600::77", 5000)))},
		{name: "udp4 on the transparent path", do: datagram(unix.AF_INET, 0, to4("198.18.5.6", 9), transparently, bound(to4("203.0.113.7", 5000)))},
		{name: "udp4 to its own address", do: datagram(unix.AF_INET, 0, to4(container4, 9), transparently, bound(to4("203.0.113.7", 5000)))},
	}
}

// Proves: the kernel's own ICMP errors carry nothing out. The first attempt
// needs no privilege at all; a wall that looked only at where a packet on lo is
// bound for let it through.
func TestReflection(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		t.Run(fmt.Sprintf("guarded=%t", guarded), func(t *testing.T) {
			w, g := newWired(t), newGroup(t)
			w.container.do(t, anyIP)
			if guarded {
				g.guard(t, Options{BridgePort: 3128, Loopback: true, Transparent: true})
			}
			c := w.listenAt(t)
			var results []result
			g.run(t, w.container, &results, "role-reflect")
			c.settle(t, w)
			for i, r := range results {
				if got := c.seen(markOf(i)) > 0; got == guarded {
					t.Errorf("%s (%v): arrived is %t", r.Name, r.Errno, got)
				}
			}
		})
	}
}

// anyIP is the route by which the transparent path's addresses are local.
func anyIP() error {
	_, to, err := parseCIDR("198.18.0.0/15")
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: firstIndex, Dst: to, Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST})
}

// binds take an address, or a port, for a server.
func binds() []attempt {
	take := func(family, kind int, at unix.Sockaddr) func([]byte) error {
		return func([]byte) error {
			return socket(family, kind, 0, nil, func(fd int) error { return unix.Bind(fd, at) })
		}
	}
	return []attempt{
		{"a dead bridge's port", take(unix.AF_INET, unix.SOCK_STREAM, to4("127.0.0.1", 3128)), unix.EACCES},
		{"every address", take(unix.AF_INET, unix.SOCK_STREAM, to4("0.0.0.0", 8080)), unix.EACCES},
		{"udp", take(unix.AF_INET, unix.SOCK_DGRAM, to4("0.0.0.0", 53)), unix.EACCES},
		{"IPv6", take(unix.AF_INET6, unix.SOCK_STREAM, to6("::1", 3128)), unix.EACCES},
		{"IPv6, every address", take(unix.AF_INET6, unix.SOCK_STREAM, to6("::", 443)), unix.EACCES},
		{"mapped", take(unix.AF_INET6, unix.SOCK_STREAM, to6("::ffff:127.0.0.1", 3128)), unix.EACCES},
		{"no port in particular", take(unix.AF_INET, unix.SOCK_STREAM, to4("127.0.0.1", 0)), 0},
		{"no port in particular, an address of eth0", take(unix.AF_INET6, unix.SOCK_STREAM, to6(container6, 0)), 0},
		{"no port in particular, IPv6", take(unix.AF_INET6, unix.SOCK_DGRAM, to6("::", 0)), 0},
	}
}

// Proves: attacks 7: in a namespace that others are in, a container takes no
// port by its number, neither theirs nor a bridge's that has ended. In its own
// it may, as it may where it publishes.
func TestBind(t *testing.T) {
	for name, o := range map[string]Options{
		"shared": {BridgePort: 3128, Shared: true}, "own": {BridgePort: 3128, Loopback: true}, "published": {Shared: true, Published: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, g := newWired(t), newGroup(t)
			g.guard(t, o)
			var results []result
			g.run(t, w.container, &results, "role-bind")
			for i, r := range results {
				want := binds()[i].want
				if name != "shared" {
					want = 0
				}
				if r.Errno != want {
					t.Errorf("%s: saw %v, want %v", r.Name, r.Errno, want)
				}
			}
		})
	}
}

// receiveRole is a server on every address of IPv4, which tells what it got
// until it gets the last.
func receiveRole([]string) {
	err := socket(unix.AF_INET, unix.SOCK_DGRAM, 0, []option{bound(to4("0.0.0.0", 5000))}, func(fd int) error {
		tell("ready")
		buffer := make([]byte, 100)
		got := []string{}
		for {
			n, _, err := unix.Recvfrom(fd, buffer, 0)
			if err != nil {
				return err
			}
			if string(buffer[:n]) == "last" {
				tell(got)
				return nil
			}
			got = append(got, string(buffer[:n]))
		}
	})
	if err != nil {
		panic(err)
	}
}

// largest sends itself the largest datagram that there is; the one of IPv6 is
// more than lo takes in one piece.
func largest() []attempt {
	self := func(family, size int, at unix.Sockaddr) func([]byte) error {
		return func([]byte) error {
			return socket(family, unix.SOCK_DGRAM, 0, []option{bound(at)}, func(fd int) error {
				if err := unix.Sendto(fd, make([]byte, size), 0, at); err != nil {
					return err
				}
				n, _, err := unix.Recvfrom(fd, make([]byte, size+1), unix.MSG_DONTWAIT)
				if err == nil && n != size {
					err = unix.EMSGSIZE
				}
				return err
			})
		}
	}
	return []attempt{
		{name: "IPv4", do: self(unix.AF_INET, 65507, to4("127.0.0.1", 5001))},
		{name: "IPv6", do: self(unix.AF_INET6, 65527, to6("::1", 5001))},
	}
}

// Proves: on lo no datagram is too large for the wall, which takes no fragments.
func TestLargeDatagrams(t *testing.T) {
	w, g := newWired(t), newGroup(t)
	g.guard(t, Options{Loopback: true})
	var results []result
	g.run(t, w.container, &results, "role-large")
	for _, r := range results {
		if r.Errno != 0 {
			t.Errorf("%s: %v", r.Name, r.Errno)
		}
	}
}

// Proves: attacks 8: a neighbour with route_localnet reaches no server on the
// container's loopback, and without a published port none at all.
func TestNeighbourComesIn(t *testing.T) {
	for name, test := range map[string]struct {
		options *Options
		want    []string
	}{
		"no guard":  {nil, []string{"to 127.0.0.1", "to " + container4}},
		"loopback":  {&Options{Loopback: true}, []string{}},
		"published": {&Options{Loopback: true, Published: true}, []string{"to " + container4}},
	} {
		t.Run(name, func(t *testing.T) {
			w, g := newWired(t), newGroup(t)
			w.container.do(t, func() error {
				return first(
					os.WriteFile("/proc/sys/net/ipv4/conf/all/route_localnet", []byte("1"), 0),
					os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("0"), 0),
					os.WriteFile("/proc/sys/net/ipv4/conf/eth0/rp_filter", []byte("0"), 0),
				)
			})
			if test.options != nil {
				g.guard(t, *test.options)
			}
			got := w.knock(t, g)
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("the server got %q, want %q", got, test.want)
			}
		})
	}
}

// knock sends to a server in g from the other end of the wire. The server ends
// by what a program beside it sends on lo.
func (w *wired) knock(t *testing.T, g *group) []string {
	t.Helper()
	cmd := g.command(t, "role-receive")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.container.do(t, cmd.Start)
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the server is not ready")
	}
	w.peer.do(t, func() error { return first(inject("127.0.0.1"), inject(container4)) })
	w.container.do(t, func() error { return datagram(unix.AF_INET, 0, to4("127.0.0.1", 5000))([]byte("last")) })
	var got []string
	if !lines.Scan() {
		t.Fatal("the server said nothing")
	}
	if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return got
}

// inject puts a datagram on the wire as it is.
func inject(to string) error {
	words := "to " + to
	udp := binary.BigEndian.AppendUint16(nil, 6000)
	udp = binary.BigEndian.AppendUint16(udp, 5000)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(words)))
	udp = append(append(udp, 0, 0), words...)
	link, err := netlink.LinkByName("peer0")
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	at := &unix.SockaddrLinklayer{Protocol: 0x0008, Ifindex: link.Attrs().Index, Halen: 6}
	copy(at.Addr[:], containerMAC)
	return unix.Sendto(fd, packet4(parseIP(peer4), parseIP(to), unix.IPPROTO_UDP, udp), 0, at)
}
