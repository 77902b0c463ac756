//go:build kernel

package guard_test

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// secret is what must not arrive.
const secret = "SECRET-of-the-container"

// act does one thing as a process in the container would, and says how it went.
func act(what string, args []string) {
	began := time.Now()
	err := acts(what, args)
	r := result{Took: time.Since(began)}
	if err != nil {
		r.Error = err.Error()
	}
	say(r)
}

func acts(what string, args []string) error {
	switch what {
	case "serve":
		return server(args[0], args[1])
	case "hold": // a namespace that this cgroup made
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		time.Sleep(time.Hour)
		return nil
	case "talk":
		return talk(args[0], args[1])
	}
	return throw(what, args[0])
}

// talk connects, says something and wants an answer.
func talk(network, address string) error {
	c, err := net.DialTimeout(network, address, 500*time.Millisecond)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(500 * time.Millisecond))
	if _, err := c.Write([]byte(secret)); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 64))
	return err
}

func server(network, address string) error {
	if network == "udp" {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			return err
		}
		echo(c)
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	accept(l)
	return nil
}

func accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Read(make([]byte, 64))
		_, _ = c.Write([]byte("answer"))
		_ = c.Close()
	}
}

func echo(c net.PacketConn) {
	b := make([]byte, 64)
	for {
		_, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		_, _ = c.WriteTo([]byte("answer"), from)
	}
}

// throws are the ways to get a byte out. Each gives the error of its last call.
var throws = map[string]func(netip.AddrPort) error{
	"connect":   func(to netip.AddrPort) error { return connected(to, unix.SOCK_STREAM, 0) },
	"mptcp":     func(to netip.AddrPort) error { return connected(to, unix.SOCK_STREAM, unix.IPPROTO_MPTCP) },
	"udp":       func(to netip.AddrPort) error { return connected(to, unix.SOCK_DGRAM, 0) },
	"sendto":    func(to netip.AddrPort) error { return sent(to, unix.SOCK_DGRAM, 0, 0, []byte(secret)) },
	"fast-open": func(to netip.AddrPort) error { return sent(to, unix.SOCK_STREAM, 0, unix.MSG_FASTOPEN, []byte(secret)) },
	"udplite": func(to netip.AddrPort) error {
		return sent(to, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, 0, []byte(secret))
	},
	"ping":    ping,
	"raw":     func(to netip.AddrPort) error { return sent(to, unix.SOCK_RAW, 253, 0, []byte(secret)) },
	"raw-ack": rawACK,
	"repair":  repair,
	"spoof":   spoof,
	"big":     func(to netip.AddrPort) error { return sent(to, unix.SOCK_DGRAM, 0, 0, make([]byte, 4000)) },
}

func throw(what, address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return throws[what](to)
}

func endpoint(to netip.AddrPort) (int, unix.Sockaddr) {
	if to.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
}

func socket(family, kind, protocol int) (int, error) {
	fd, err := unix.Socket(family, kind, protocol)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	wait := unix.Timeval{Usec: 80_000}
	return fd, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &wait)
}

func connected(to netip.AddrPort, kind, protocol int) error {
	family, sa := endpoint(to)
	fd, err := socket(family, kind, protocol)
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, sa); err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(secret))
	return err
}

func sent(to netip.AddrPort, kind, protocol, flags int, data []byte) error {
	family, sa := endpoint(to)
	if kind == unix.SOCK_RAW && family == unix.AF_INET6 {
		sa.(*unix.SockaddrInet6).Port = 0
	}
	fd, err := socket(family, kind, protocol)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, data, flags, sa)
}

func ping(to netip.AddrPort) error {
	protocol, kind := unix.IPPROTO_ICMP, byte(8)
	if to.Addr().Is6() {
		protocol, kind = unix.IPPROTO_ICMPV6, 128
	}
	return sent(netip.AddrPortFrom(to.Addr(), 0), unix.SOCK_DGRAM, protocol, 0, append([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, secret...))
}

// rawACK is data in a segment of a connection that there is not.
func rawACK(to netip.AddrPort) error {
	segment := append([]byte{0x1f, 0x90, byte(to.Port() >> 8), byte(to.Port()), 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0}, secret...)
	return sent(to, unix.SOCK_RAW, unix.IPPROTO_TCP, 0, segment)
}

// repair makes a connection that nobody agreed to (TCP_REPAIR, tcp(7)), so there
// is no SYN, and sends data on it.
func repair(to netip.AddrPort) error {
	family, sa := endpoint(to)
	fd, err := socket(family, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR, 1); err != nil {
		return fmt.Errorf("TCP_REPAIR: %w", err)
	}
	if err := unix.Connect(fd, sa); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR, 0); err != nil {
		return fmt.Errorf("TCP_REPAIR: %w", err)
	}
	_, err = unix.Write(fd, []byte(secret))
	time.Sleep(20 * time.Millisecond)
	return err
}

// spoof sends to a closed port of this machine in the stranger's name, so that
// the kernel's error carries the data to the stranger.
func spoof(stranger netip.AddrPort) error {
	family, sa := endpoint(stranger)
	closed := netip.MustParseAddrPort("127.0.0.1:9")
	level, name := unix.SOL_IP, unix.IP_TRANSPARENT
	if family == unix.AF_INET6 {
		closed, level, name = netip.MustParseAddrPort("[::1]:9"), unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	}
	fd, err := socket(family, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, level, name, 1); err != nil {
		return fmt.Errorf("transparent: %w", err)
	}
	if err := unix.Bind(fd, sa); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	_, to := endpoint(closed)
	return unix.Sendto(fd, []byte(secret), 0, to)
}
