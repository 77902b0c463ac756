package caller

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// patience is for what nobody answers, in microseconds.
const patience = 150_000

// socket opens one, and closes it when use is done.
func socket(family, kind, protocol int, use func(fd int) error) error {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Usec: patience}); err != nil {
		return err
	}
	return use(fd)
}

func at(addr netip.Addr, port int) (family int, to unix.Sockaddr) {
	if addr.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: addr.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: addr.As16(), ZoneId: uint32(index(addr.Zone()))}
}

// index of a link; that of the first beside lo where there is no such link.
func index(name string) int {
	if i, err := net.InterfaceByName(name); err == nil {
		return i.Index
	}
	if name == "" {
		return 0
	}
	return 2
}

func stream(protocol int) func(netip.Addr, sign) error {
	return func(addr netip.Addr, s sign) error {
		family, to := at(addr, s.port())
		return socket(family, unix.SOCK_STREAM, protocol, func(fd int) error { return unix.Connect(fd, to) })
	}
}

func fastOpen(addr netip.Addr, s sign) error {
	family, to := at(addr, s.port())
	return socket(family, unix.SOCK_STREAM, 0, func(fd int) error { return unix.Sendto(fd, s.text(), unix.MSG_FASTOPEN, to) })
}

func connected(addr netip.Addr, s sign) error {
	family, to := at(addr, s.port())
	return socket(family, unix.SOCK_DGRAM, 0, func(fd int) error {
		if err := unix.Connect(fd, to); err != nil {
			return err
		}
		_, err := unix.Write(fd, s.text())
		return err
	})
}

func datagram(kind, protocol int) func(netip.Addr, sign) error {
	return func(addr netip.Addr, s sign) error {
		family, to := at(addr, s.port())
		if kind == unix.SOCK_RAW {
			family, to = at(addr, 0) // a raw socket of IPv6 wants none
		}
		return socket(family, kind, protocol, func(fd int) error { return unix.Sendto(fd, s.text(), 0, to) })
	}
}

// ping sends an echo request with the sign in it.
func ping(kind int) func(netip.Addr, sign) error {
	return func(addr netip.Addr, s sign) error {
		family, to := at(addr, 0)
		protocol, echo := unix.IPPROTO_ICMP, byte(8)
		if family == unix.AF_INET6 {
			protocol, echo = unix.IPPROTO_ICMPV6, 128
		}
		packet := append([]byte{echo, 0, 0, 0, 0, 1, 0, 1}, s.text()...)
		sum := checksum(packet)
		packet[2], packet[3] = byte(sum>>8), byte(sum)
		return socket(family, kind, protocol, func(fd int) error { return unix.Sendto(fd, packet, 0, to) })
	}
}

// checksum is the one of RFC 1071.
func checksum(data []byte) uint16 {
	sum := uint32(0)
	for i, b := range data {
		sum += uint32(b) << (8 * (1 - i%2))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// ask sends a question whose name has the sign, and wants any answer at all.
func ask(network, at string, s sign) error {
	name, err := dnsmessage.NewName(s.name() + ".")
	if err != nil {
		return err
	}
	q := dnsmessage.Question{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}
	m := dnsmessage.Message{Header: dnsmessage.Header{RecursionDesired: true}, Questions: []dnsmessage.Question{q}}
	packet, err := m.Pack()
	if err != nil {
		return err
	}
	if network == "tcp" {
		packet = append([]byte{byte(len(packet) >> 8), byte(len(packet))}, packet...)
	}
	conn, err := connect(network, at, 500*time.Millisecond)
	if err != nil {
		return bare(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(500 * time.Millisecond))
	if _, err := conn.Write(packet); err != nil {
		return bare(err)
	}
	_, err = conn.Read(make([]byte, 512))
	return bare(err)
}

// bare is the kernel's own error, without what the network package adds.
func bare(err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	return err
}

// links are ways around the internet's protocols, and what changes them.
func (p Places) links() []attempt {
	packet := func(kind int) func(sign) error {
		return func(s sign) error {
			const all = 0x0300 // ETH_P_ALL, in the order of the network
			return socket(unix.AF_PACKET, kind, all, func(fd int) error {
				to := &unix.SockaddrLinklayer{Protocol: 0xb588, Ifindex: index(p.Device), Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255}}
				// A frame of its own needs no more than the two addresses and a type.
				frame := append([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}, s.text()...)
				return unix.Sendto(fd, frame, 0, to)
			})
		}
	}
	return []attempt{
		{"packet socket, raw", packet(unix.SOCK_RAW)},
		{"packet socket, datagram", packet(unix.SOCK_DGRAM)},
		{"SOCK_PACKET", func(sign) error {
			return socket(unix.AF_INET, unix.SOCK_PACKET, 0x0300, func(int) error { return nil })
		}},
		{"IGMP, by joining a group", func(s sign) error { return p.join4(s) }},
		{"MLD, by joining a group", func(s sign) error { return p.join6(s) }},
		{"UDP to a group", func(s sign) error { return connected(netip.MustParseAddr(s.group4()), s) }},
		{"UDP to an IPv6 group", func(s sign) error { return connected(netip.MustParseAddr(s.group6()).WithZone(p.Device), s) }},
		{"UDP to everybody", func(s sign) error {
			_, to := at(netip.AddrFrom4([4]byte{255, 255, 255, 255}), s.port())
			return socket(unix.AF_INET, unix.SOCK_DGRAM, 0, func(fd int) error {
				if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1); err != nil {
					return err
				}
				return unix.Sendto(fd, s.text(), 0, to)
			})
		}},
	}
}

func (p Places) join4(s sign) error {
	return socket(unix.AF_INET, unix.SOCK_DGRAM, 0, func(fd int) error {
		m := &unix.IPMreqn{Multiaddr: netip.MustParseAddr(s.group4()).As4(), Ifindex: int32(index(p.Device))}
		return unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, m)
	})
}

func (p Places) join6(s sign) error {
	return socket(unix.AF_INET6, unix.SOCK_DGRAM, 0, func(fd int) error {
		m := &unix.IPv6Mreq{Multiaddr: netip.MustParseAddr(s.group6()).As16(), Interface: uint32(index(p.Device))}
		return unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, m)
	})
}

// sockets are of other families.
func sockets() []attempt {
	open := func(name string, family, kind, protocol int, use func(fd int) error) attempt {
		return attempt{name, func(sign) error { return socket(family, kind, protocol, use) }}
	}
	made := func(int) error { return nil }
	return []attempt{
		open("vsock to the host", unix.AF_VSOCK, unix.SOCK_STREAM, 0, func(fd int) error {
			return unix.Connect(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_HOST, Port: FirstPort})
		}),
		open("netlink, a route of its own", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE, addRoute),
		open("netlink, others' sockets", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG, made),
		open("netlink, netfilter", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER, made),
		open("XDP", unix.AF_XDP, unix.SOCK_RAW, 0, made),
	}
}

// addRoute asks for 192.0.2.0/24 to be local.
func addRoute(fd int) error {
	const (
		created = unix.NLM_F_REQUEST | unix.NLM_F_ACK | unix.NLM_F_CREATE
		lo      = 1
	)
	request := []byte{
		44, 0, 0, 0, unix.RTM_NEWROUTE, 0, created & 0xff, created >> 8, 1, 0, 0, 0, 0, 0, 0, 0,
		unix.AF_INET, 24, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0,
		8, 0, unix.RTA_DST, 0, 192, 0, 2, 0,
		8, 0, unix.RTA_OIF, 0, lo, 0, 0, 0,
	}
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < 20 {
		return fmt.Errorf("saw %d bytes of an answer", n)
	}
	// struct nlmsgerr: the error comes first, negative, in the machine's own order.
	if errno := -int32(uint32(answer[16]) | uint32(answer[17])<<8 | uint32(answer[18])<<16 | uint32(answer[19])<<24); errno != 0 {
		return unix.Errno(errno)
	}
	return nil
}
