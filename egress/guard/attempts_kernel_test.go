//go:build kernel

package guard

import (
	"encoding/binary"
	"encoding/json"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// attempt is one thing that a program does to reach the network, as root with
// every capability: what the second seccomp layer denies is tried all the same.
type attempt struct {
	name string
	do   func(mark []byte) error
	// want is what it sees below a guard. 0 is for ping of IPv6, of which the kernel
	// tells no error.
	want unix.Errno
}

func parseIP(text string) net.IP { return net.ParseIP(text) }

func parseCIDR(text string) (net.IP, *net.IPNet, error) { return net.ParseCIDR(text) }

func to4(ip string, port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte(parseIP(ip).To4())}
}

func to6(ip string, port int) *unix.SockaddrInet6 {
	return &unix.SockaddrInet6{Port: port, Addr: [16]byte(parseIP(ip).To16())}
}

// option is set before the first packet.
type option func(fd int) error

func numeric(level, name, value int) option {
	return func(fd int) error { return unix.SetsockoptInt(fd, level, name, value) }
}

func bytesOf(level, name int, value string) option {
	return func(fd int) error { return unix.SetsockoptString(fd, level, name, value) }
}

func bound(to unix.Sockaddr) option { return func(fd int) error { return unix.Bind(fd, to) } }

func socket(family, kind, protocol int, options []option, use func(fd int) error) error {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// So long does a connection take that nobody answers.
	wait := unix.Timeval{Usec: 60_000}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &wait); err != nil {
		return err
	}
	for _, set := range options {
		if err := set(fd); err != nil {
			return err
		}
	}
	return use(fd)
}

// stream connects; the port to connect to says which attempt it is.
func stream(family, protocol int, to func(port int) unix.Sockaddr, options ...option) func([]byte) error {
	return func(mark []byte) error {
		port := int(binary.BigEndian.Uint16(mark))
		return socket(family, unix.SOCK_STREAM, protocol, options, func(fd int) error { return unix.Connect(fd, to(port)) })
	}
}

// datagram sends the mark to an address.
func datagram(family, protocol int, to unix.Sockaddr, options ...option) func([]byte) error {
	return func(mark []byte) error {
		return socket(family, unix.SOCK_DGRAM, protocol, options, func(fd int) error { return unix.Sendto(fd, mark, 0, to) })
	}
}

// connected connects, and sends the mark after it.
func connected(family, protocol int, to unix.Sockaddr, options ...option) func([]byte) error {
	return func(mark []byte) error {
		return socket(family, unix.SOCK_DGRAM, protocol, options, func(fd int) error {
			if err := unix.Connect(fd, to); err != nil {
				return err
			}
			_, err := unix.Write(fd, mark)
			return err
		})
	}
}

// fastOpen sends data with the first packet.
func fastOpen(family int, to func(port int) unix.Sockaddr) func([]byte) error {
	return func(mark []byte) error {
		port := int(binary.BigEndian.Uint16(mark))
		return socket(family, unix.SOCK_STREAM, 0, nil, func(fd int) error { return unix.Sendto(fd, mark, unix.MSG_FASTOPEN, to(port)) })
	}
}

// laterOpen connects in word, and in deed with the first write.
func laterOpen(to func(port int) unix.Sockaddr) func([]byte) error {
	return func(mark []byte) error {
		port := int(binary.BigEndian.Uint16(mark))
		options := []option{numeric(unix.SOL_TCP, unix.TCP_FASTOPEN_CONNECT, 1)}
		return socket(unix.AF_INET, unix.SOCK_STREAM, 0, options, func(fd int) error {
			if err := unix.Connect(fd, to(port)); err != nil {
				return err
			}
			_, err := unix.Write(fd, mark)
			return err
		})
	}
}

// ping sends the mark in an echo request, by a socket without privilege.
func ping(family int, to unix.Sockaddr, options ...option) func([]byte) error {
	protocol, kind := unix.IPPROTO_ICMP, byte(8)
	if family == unix.AF_INET6 {
		protocol, kind = unix.IPPROTO_ICMPV6, 128
	}
	return func(mark []byte) error {
		echo := append([]byte{kind, 0, 0, 0, 0, 0, 0, 1}, mark...)
		return socket(family, unix.SOCK_DGRAM, protocol, options, func(fd int) error { return unix.Sendto(fd, echo, 0, to) })
	}
}

// raw sends protocol 253, for experiments, with the mark as all that it has.
func raw(family int, to unix.Sockaddr) func([]byte) error {
	return func(mark []byte) error {
		return socket(family, unix.SOCK_RAW, 253, nil, func(fd int) error { return unix.Sendto(fd, mark, 0, to) })
	}
}

// written sends an IPv4 packet with a header of its own.
func written(change func(header []byte)) func([]byte) error {
	return func(mark []byte) error {
		p := packet4(parseIP(container4), parseIP(peer4), unix.IPPROTO_TCP, append(append([]byte{}, mark...), make([]byte, 20)...))
		p[20+tcpFlags] = 0x10 // ACK: belongs to a connection
		change(p)
		return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW, nil, func(fd int) error { return unix.Sendto(fd, p, 0, to4(peer4, 0)) })
	}
}

// withInfo sends by sendmsg(2) with a control message.
func withInfo(family int, to unix.Sockaddr, control []byte) func([]byte) error {
	return func(mark []byte) error {
		return socket(family, unix.SOCK_DGRAM, 0, nil, func(fd int) error { return unix.Sendmsg(fd, mark, control, to, 0) })
	}
}

func nic() int {
	i, err := net.InterfaceByName("eth0")
	if err != nil {
		return 0
	}
	return i.Index
}

// attempts are made in a namespace with lo and eth0.
func attempts() []attempt {
	p4, p6, port := to4(peer4, 4000), to6(peer6, 4000), func(f func(string, int) unix.Sockaddr, ip string) func(int) unix.Sockaddr {
		return func(n int) unix.Sockaddr { return f(ip, n) }
	}
	a4 := func(ip string, n int) unix.Sockaddr { return to4(ip, n) }
	a6 := func(ip string, n int) unix.Sockaddr { return to6(ip, n) }
	local := to6("fe80::1", 4000)
	local.ZoneId = uint32(nic())
	group := to6("ff02::77", 4000)
	group.ZoneId = uint32(nic())
	onNIC := bytesOf(unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "eth0")
	const unreachable = unix.ENETUNREACH
	return []attempt{
		{"tcp4", stream(unix.AF_INET, 0, port(a4, peer4)), unreachable},
		{"tcp4, public", stream(unix.AF_INET, 0, port(a4, "8.8.8.8")), unreachable},
		{"tcp6", stream(unix.AF_INET6, 0, port(a6, peer6)), unreachable},
		{"tcp6, public", stream(unix.AF_INET6, 0, port(a6, "2600::77")), unreachable},
		{"tcp6, mapped", stream(unix.AF_INET6, 0, port(a6, "::ffff:"+peer4)), unreachable},
		{"tcp4 on eth0", stream(unix.AF_INET, 0, port(a4, peer4), onNIC), unreachable},
		{"tcp4, another's address", stream(unix.AF_INET, 0, port(a4, peer4), numeric(unix.SOL_IP, unix.IP_TRANSPARENT, 1), bound(to4("203.0.113.7", 0))), unreachable},
		{"tcp4, fast open", fastOpen(unix.AF_INET, port(a4, peer4)), unreachable},
		{"tcp6, fast open", fastOpen(unix.AF_INET6, port(a6, peer6)), unreachable},
		{"tcp4, fast open by connect", laterOpen(port(a4, peer4)), unreachable},
		{"mptcp4", stream(unix.AF_INET, unix.IPPROTO_MPTCP, port(a4, peer4)), unreachable},
		{"mptcp6", stream(unix.AF_INET6, unix.IPPROTO_MPTCP, port(a6, peer6)), unreachable},
		{"udp4", datagram(unix.AF_INET, 0, p4), unreachable},
		{"udp4, connected", connected(unix.AF_INET, 0, p4), unreachable},
		{"udp4 to a resolver", datagram(unix.AF_INET, 0, to4("1.1.1.1", 53)), unreachable},
		{"udp4, broadcast", datagram(unix.AF_INET, 0, to4("255.255.255.255", 4000), numeric(unix.SOL_SOCKET, unix.SO_BROADCAST, 1), onNIC), unreachable},
		{"udp4, multicast", datagram(unix.AF_INET, 0, to4("224.0.0.251", 5353), onNIC), unreachable},
		{"udp4, interface by message", withInfo(unix.AF_INET, p4, unix.PktInfo4(&unix.Inet4Pktinfo{Ifindex: int32(nic())})), unreachable},
		{"udp4, source route", datagram(unix.AF_INET, 0, p4, bytesOf(unix.SOL_IP, unix.IP_OPTIONS, "\x83\x07\x04\x08\x08\x08\x08\x00")), unreachable},
		{"udp4, corked", func(mark []byte) error {
			return socket(unix.AF_INET, unix.SOCK_DGRAM, 0, nil, func(fd int) error {
				return first(unix.Sendto(fd, mark, unix.MSG_MORE, p4), unix.Sendto(fd, mark, 0, p4))
			})
		}, unreachable},
		{"udp6", datagram(unix.AF_INET6, 0, p6), unreachable},
		{"udp6, connected", connected(unix.AF_INET6, 0, p6), unreachable},
		{"udp6, mapped", datagram(unix.AF_INET6, 0, to6("::ffff:"+peer4, 4000)), unreachable},
		{"udp6, IPv4 address", datagram(unix.AF_INET6, 0, p4), unreachable},
		{"udp6, mapped, connected", connected(unix.AF_INET6, 0, to6("::ffff:"+peer4, 4000)), unreachable},
		{"udp6, multicast", datagram(unix.AF_INET6, 0, group), unreachable},
		{"udp6, interface by message", withInfo(unix.AF_INET6, p6, unix.PktInfo6(&unix.Inet6Pktinfo{Ifindex: uint32(nic())})), unreachable},
		{"udplite4", datagram(unix.AF_INET, unix.IPPROTO_UDPLITE, p4), unreachable},
		{"udplite6", datagram(unix.AF_INET6, unix.IPPROTO_UDPLITE, p6), unreachable},
		{"ping4", ping(unix.AF_INET, to4(peer4, 0)), unix.EPERM},
		{"ping6", ping(unix.AF_INET6, to6(peer6, 0)), 0},
		{"raw4", raw(unix.AF_INET, to4(peer4, 0)), unix.EPERM},
		{"raw6", raw(unix.AF_INET6, to6(peer6, 0)), unix.EPERM},
		{"written header", written(func([]byte) {}), unix.EPERM},
		{"written header, last fragment", written(func(p []byte) { p[7] = 3 }), unix.EPERM},
		{"written header, first fragment", written(func(p []byte) { p[6] = 0x20 }), unix.EPERM},
	}
}

// result is what a program tells of an attempt.
type result struct {
	Name  string
	Errno unix.Errno
	Took  time.Duration
}

var roles = map[string]func(args []string){
	"role-attempts": func([]string) { tell(tryAll(attempts())) },
	"role-attach":   attachRole,
	"role-reflect":  func([]string) { tell(tryAll(reflections())) },
	"role-bind":     func([]string) { tell(tryAll(binds())) },
	"role-large":    func([]string) { tell(tryAll(largest())) },
	"role-receive":  receiveRole,
}

func tell(answer any) {
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		panic(err)
	}
}

// markOf says which attempt it was; as a port, too.
func markOf(i int) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(20000+i)), "of a container"...)
}

func tryAll(all []attempt) []result {
	results := make([]result, 0, len(all))
	for i, a := range all {
		r := result{Name: a.name}
		// The machine may be busy: the quickest of three is what the kernel needs.
		for range 3 {
			begin := time.Now()
			err := a.do(markOf(i))
			took := time.Since(begin)
			r.Errno, _ = err.(unix.Errno) //nolint:errorlint // a bare number by x/sys
			if r.Took == 0 || took < r.Took {
				r.Took = took
			}
		}
		results = append(results, r)
	}
	return results
}

// packet4 is an IPv4 packet with a right checksum.
func packet4(from, to net.IP, protocol byte, payload []byte) []byte {
	p := make([]byte, 20, 20+len(payload))
	p[0], p[8], p[9] = 0x45, 64, protocol
	binary.BigEndian.PutUint16(p[2:], uint16(20+len(payload)))
	copy(p[12:], from.To4())
	copy(p[16:], to.To4())
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(p[10:], ^uint16(sum))
	return append(p, payload...)
}
