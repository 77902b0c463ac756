//go:build kernel

package guard_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress/guard"
	"github.com/sage-sandbox/sage/internal/sys"
)

// servers are on lo, and another cgroup's, as the bridge's are.
func servers(t *testing.T, s *space) {
	t.Helper()
	s.run(t, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		_, all, _ := net.ParseCIDR("198.18.0.0/15")
		return netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: all, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST})
	})
	for _, a := range []string{"127.0.0.1:3128", "[::1]:3128", "127.0.0.1:8080", "[::1]:8080", "127.0.0.5:3128", "127.0.0.11:53", "198.18.3.4:443", own4 + ":3128"} {
		s.run(t, func() error { return listen(t, "tcp", a) })
	}
	for _, a := range []string{"127.0.0.1:3128", "127.0.0.1:53", "[::1]:53", "127.0.0.11:53", "198.18.0.1:53"} {
		s.run(t, func() error { return listen(t, "udp", a) })
	}
}

func listen(t *testing.T, network, address string) error {
	if network == "udp" {
		c, err := net.ListenPacket(network, address)
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
			go echo(c)
		}
		return err
	}
	l, err := net.Listen(network, address)
	if err == nil {
		t.Cleanup(func() { _ = l.Close() })
		go accept(l)
	}
	return err
}

// Proves: attacks 7 and 9. What passes on lo, for each set of rules, with an
// answer; the rest gets ENETUNREACH.
func TestLoopback(t *testing.T) {
	own, _ := place(t)
	servers(t, own)
	loopback := func(o guard.Options) bool { return o.Loopback }
	either := func(o guard.Options) bool { return o.Loopback || o.BridgePort != 0 }
	transparent := func(o guard.Options) bool { return o.Transparent }
	never := func(guard.Options) bool { return false }
	cases := []struct {
		network, address string
		passes           func(guard.Options) bool
	}{
		{"tcp", "127.0.0.1:3128", either},
		{"tcp", "[::1]:3128", either},
		{"tcp", "0.0.0.0:3128", either},
		{"tcp", "[::ffff:127.0.0.1]:3128", either},
		{"udp", "127.0.0.1:3128", loopback},
		{"tcp", "127.0.0.1:8080", loopback},
		{"tcp", "[::1]:8080", loopback},
		{"tcp", "127.0.0.5:3128", loopback},
		{"udp", "127.0.0.1:53", loopback},
		{"udp", "[::1]:53", loopback},
		{"tcp", "127.0.0.11:53", never},
		{"udp", "127.0.0.11:53", never},
		{"tcp", "198.18.3.4:443", transparent},
		{"udp", "198.18.0.1:53", transparent},
		{"tcp", own4 + ":3128", never}, // its own address, which is on lo, too
	}
	free := newGroup(t, "")
	for _, c := range cases {
		if r := do(t, own, free, "talk", c.network, c.address); r.Error != "" {
			t.Errorf("%s %s without a guard: %+v", c.network, c.address, r)
		}
	}
	for _, o := range every() {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			g := newGroup(t, "")
			attach(t, g, o)
			for _, c := range cases {
				r := do(t, own, g, "talk", c.network, c.address)
				if passed := r.Error == ""; passed != c.passes(o) || !passed && !strings.HasSuffix(r.Error, "network is unreachable") {
					t.Errorf("%s %s: %+v, want %t", c.network, c.address, r, c.passes(o))
				}
			}
		})
	}
}

// calls are the kinds of program that answer a call.
var calls = map[guard.Kind]uint32{
	guard.Connect4: unix.BPF_CGROUP_INET4_CONNECT, guard.Connect6: unix.BPF_CGROUP_INET6_CONNECT,
	guard.Sendmsg4: unix.BPF_CGROUP_UDP4_SENDMSG, guard.Sendmsg6: unix.BPF_CGROUP_UDP6_SENDMSG,
}

func takeOff(t *testing.T, g group, id, at uint32) {
	t.Helper()
	fd, err := sys.OpenProgram(id)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := sys.DetachProgram(g.fd, fd, at); err != nil {
		t.Fatal(err)
	}
}

// The wall alone: with the programs for addresses taken off, nothing else passes.
func TestWallAlone(t *testing.T) {
	own, stranger := place(t)
	servers(t, own)
	c := newTap(t, stranger)
	for _, o := range []guard.Options{{BridgePort: 3128}, {BridgePort: 3128, Shared: true}, {BridgePort: 3128, Transparent: true, Published: true}} {
		g := newGroup(t, "")
		r := attach(t, g, o)
		for _, p := range r.Programs {
			if at, call := calls[p.Kind]; call {
				takeOff(t, g, p.ID, at)
			}
		}
		for _, h := range hostile {
			// Nothing tells a connection that TCP_REPAIR made from one that was accepted.
			if h.what != "repair" || !o.Published {
				do(t, own, g, h.what, h.to)
			}
		}
		if seen := c.arrived(); len(seen) != 0 {
			t.Errorf("%+v: arrived: %q", o, seen)
		}
		for _, no := range [][2]string{{"udp", "127.0.0.11:53"}, {"tcp", "127.0.0.1:8080"}, {"tcp", "[::1]:8080"}, {"udp", "127.0.0.1:3128"}, {"tcp", "127.0.0.5:3128"}, {"tcp", own4 + ":3128"}} {
			if r := do(t, own, g, "talk", no[0], no[1]); r.Error == "" {
				t.Errorf("%+v: %s passed", o, no)
			}
		}
		for _, yes := range [][2]string{{"tcp", "127.0.0.1:3128"}, {"tcp", "[::1]:3128"}} {
			if r := do(t, own, g, "talk", yes[0], yes[1]); (r.Error == "") != (o.BridgePort != 0) {
				t.Errorf("%+v: %s: %+v", o, yes, r)
			}
		}
	}
}

// Proves: attack 20. A published port answers, and only a published one; who
// serves still connects to nobody.
func TestPublished(t *testing.T) {
	own, stranger := place(t)
	peer := newGroup(t, "")
	for _, published := range []bool{true, false} {
		g := newGroup(t, "")
		attach(t, g, guard.Options{BridgePort: 3128, Published: published})
		number := map[bool]string{true: "8081", false: "8082"}[published]
		serve(t, own, g, "tcp", ":"+number)
		for _, a := range []string{own4 + ":" + number, "[" + own6 + "]:" + number} {
			if r := do(t, stranger, peer, "talk", "tcp", a); (r.Error == "") != published {
				t.Errorf("inbound %s: %+v, published %t", a, r, published)
			}
		}
		if r := do(t, own, g, "connect", stranger4+":7000"); r.Error != unix.ENETUNREACH.Error() {
			t.Errorf("outbound: %+v", r)
		}
	}
}

// The container's own namespace, as its init makes it: the kernel's questions for
// IPv6 neighbours belong to the container's cgroup there, and who dials from it
// in another cgroup needs them answered. It shows that IPv6 works, and not that the
// rule for neighbours is what it takes: in time it passed without the rule, too.
func TestNeighbours(t *testing.T) {
	g, free := newGroup(t, ""), newGroup(t, "")
	attach(t, g, guard.Options{BridgePort: 3128})
	outer := newSpace(t, netns.New)
	held, _ := start(t, outer, g, "hold")
	t.Cleanup(func() { _ = held.Process.Kill(); _ = held.Wait() })
	own := newSpace(t, func() (netns.NsHandle, error) {
		ns, err := unshared(held.Process.Pid)
		if err == nil {
			err = netns.Set(ns)
		}
		return ns, err
	})
	stranger := newSpace(t, netns.New)
	link(t, own, stranger)
	stranger.run(t, func() error { return listen(t, "tcp", "["+stranger6+"]:7000") })
	r := do(t, own, free, "talk", "tcp", "["+stranger6+"]:7000")
	for deadline := time.Now().Add(5 * time.Second); r.Error != "" && time.Now().Before(deadline); { // until the link carries
		r = do(t, own, free, "talk", "tcp", "["+stranger6+"]:7000")
	}
	if r.Error != "" {
		t.Errorf("the proxy: %+v", r)
	}
	if r := do(t, own, g, "talk", "tcp", "["+stranger6+"]:7000"); r.Error == "" {
		t.Error("the container connected, too")
	}
}

// unshared waits for a process to have a thread in another namespace than the
// rest, and opens that one.
func unshared(pid int) (netns.NsHandle, error) {
	process := fmt.Sprintf("/proc/%d/", pid)
	for range 250 {
		first, err := os.Readlink(process + "ns/net")
		if err != nil {
			return -1, err
		}
		threads, _ := filepath.Glob(process + "task/*/ns/net")
		for _, thread := range threads {
			if other, err := os.Readlink(thread); err == nil && other != first {
				return netns.GetFromPath(thread)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return -1, errors.New("no thread made a namespace")
}
