//go:build kernel

package guard_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress/guard"
)

// tap records what arrives at the stranger's end of the link.
type tap struct{ fd int }

func newTap(t *testing.T, s *space) tap {
	t.Helper()
	var fd int
	s.run(t, func() (err error) {
		const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, all&0xffff)
		return err
	})
	t.Cleanup(func() { _ = unix.Close(fd) })
	return tap{fd}
}

// arrived gives what came since it was asked last, but for ARP and what the
// kernel says on its own in a namespace: ICMPv6 that is no echo.
func (c tap) arrived() (seen []string) {
	time.Sleep(30 * time.Millisecond)
	b := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(c.fd, b, 0)
		if err != nil {
			return seen
		}
		if from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		frame := b[:n]
		ip6 := frame[12] == 0x86 && frame[13] == 0xdd
		// MLD comes behind a hop-by-hop header.
		ours := frame[12] == 8 && frame[13] == 0 || ip6 && (frame[20] != 58 && frame[20] != 0 || frame[54] == 128)
		if ours || bytes.Contains(frame, []byte(secret)) {
			seen = append(seen, fmt.Sprintf("%x", frame[12:min(n, 80)]))
		}
	}
}

// hostile is every way to the stranger, and the error that it gets.
var hostile = []struct {
	what, to string
	want     error // of the guard; nil where the protocol reports none
}{
	{"connect", stranger4 + ":7000", unix.ENETUNREACH},
	{"connect", "[" + stranger6 + "]:7000", unix.ENETUNREACH},
	{"connect", "[::ffff:" + stranger4 + "]:7000", unix.ENETUNREACH},
	{"fast-open", stranger4 + ":7000", unix.ENETUNREACH},
	{"fast-open", "[" + stranger6 + "]:7000", unix.ENETUNREACH},
	{"udp", stranger4 + ":7000", unix.ENETUNREACH},
	{"udp", "[" + stranger6 + "]:7000", unix.ENETUNREACH},
	{"udp", "[::ffff:" + stranger4 + "]:7000", unix.ENETUNREACH},
	{"sendto", stranger4 + ":7000", unix.ENETUNREACH},
	{"sendto", "[" + stranger6 + "]:7000", unix.ENETUNREACH},
	{"sendto", "[::ffff:" + stranger4 + "]:7000", unix.ENETUNREACH},
	{"sendto", stranger4 + ":3128", unix.ENETUNREACH},
	{"connect", stranger4 + ":3128", unix.ENETUNREACH},
	{"big", stranger4 + ":7000", unix.ENETUNREACH},
	{"ping", stranger4 + ":0", unix.EPERM},
	{"ping", "[" + stranger6 + "]:0", nil},
	{"raw", stranger4 + ":0", unix.EPERM},
	{"raw", "[" + stranger6 + "]:0", unix.EPERM},
	{"raw-ack", stranger4 + ":7000", unix.EPERM},
	{"raw-ack", "[" + stranger6 + "]:7000", unix.EPERM},
	{"repair", stranger4 + ":7000", unix.ENETUNREACH},
	{"repair", "[" + stranger6 + "]:7000", unix.ENETUNREACH},
}

// every is every set of rules that a container may have.
func every() (all []guard.Options) {
	for _, bridge := range []uint16{0, 3128} {
		for bits := range 16 {
			o := guard.Options{
				BridgePort: bridge, Shared: bits&1 != 0, Loopback: bits&2 != 0,
				Transparent: bits&4 != 0, Published: bits&8 != 0,
			}
			if (!o.Shared || !o.Loopback && !o.Transparent) && (!o.Transparent || o.BridgePort != 0) {
				all = append(all, o)
			}
		}
	}
	return all
}

// Without a guard all of it arrives, so the tests below can fail.
func TestHostileArrivesWithoutGuard(t *testing.T) {
	own, stranger := place(t)
	g, c := newGroup(t, ""), newTap(t, stranger)
	do(t, own, g, "ping", stranger4+":0") // the first one waits for the link
	c.arrived()
	for _, h := range hostile {
		r := do(t, own, g, h.what, h.to)
		if seen := c.arrived(); len(seen) == 0 {
			t.Errorf("%s %s: %+v, and nothing arrived", h.what, h.to, r)
		}
	}
}

// Proves: attacks 6 and 20. Nothing leaves by any way under any set of rules, and
// whoever calls is told at once.
func TestNothingLeaves(t *testing.T) {
	own, stranger := place(t)
	c := newTap(t, stranger)
	for _, o := range every() {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			g := newGroup(t, "")
			attach(t, g, o)
			for _, h := range hostile {
				r := do(t, own, g, h.what, h.to)
				if r.Error != text(h.want) || r.Took > 100*time.Millisecond {
					t.Errorf("%s %s: %+v, want %q at once", h.what, h.to, r, h.want)
				}
			}
			if seen := c.arrived(); len(seen) != 0 {
				t.Errorf("arrived: %q", seen)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
