package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// families is one more than the last that the kernel knows.
const families = 46

// made are sockets that one could hope to get, by name.
var made = []struct {
	name                   string
	family, kind, protocol uintptr
}{
	{"unix stream", unix.AF_UNIX, unix.SOCK_STREAM, 0},
	{"unix stream close on exec", unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 0},
	{"unix datagram", unix.AF_UNIX, unix.SOCK_DGRAM, 0},
	{"unix sequence", unix.AF_UNIX, unix.SOCK_SEQPACKET, 0},
	{"unix raw", unix.AF_UNIX, unix.SOCK_RAW, 0},
	{"unix stream, a bit above", bit32 | unix.AF_UNIX, bit32 | unix.SOCK_STREAM, bit32},
	{"inet stream", unix.AF_INET, unix.SOCK_STREAM, 0},
	{"inet tcp", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP},
	{"inet tcp close on exec", unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP},
	{"inet tcp, a bit above", bit32 | unix.AF_INET, bit32 | unix.SOCK_STREAM, bit32 | unix.IPPROTO_TCP},
	{"inet mptcp", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
	{"inet smc", unix.AF_INET, unix.SOCK_STREAM, 256},
	{"inet sctp", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP},
	{"inet sctp sequence", unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP},
	{"inet dccp", unix.AF_INET, 6, unix.IPPROTO_DCCP},
	{"inet datagram", unix.AF_INET, unix.SOCK_DGRAM, 0},
	{"inet udp", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP},
	{"inet udplite", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE},
	{"inet l2tp", unix.AF_INET, unix.SOCK_DGRAM, 115},
	{"inet ping", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP},
	{"inet raw icmp", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
	{"inet raw any", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW},
	{"inet raw close on exec", unix.AF_INET, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP},
	{"inet raw, a bit above", bit32 | unix.AF_INET, bit32 | unix.SOCK_RAW, unix.IPPROTO_ICMP},
	{"inet SOCK_PACKET", unix.AF_INET, unix.SOCK_PACKET, 0x300},
	{"inet SOCK_PACKET, a bit above", bit32 | unix.AF_INET, bit32 | unix.SOCK_PACKET, 0x300},
	{"inet6 tcp", unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP},
	{"inet6 mptcp", unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
	{"inet6 udp", unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP},
	{"inet6 raw", unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6},
	{"inet6 sctp", unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_SCTP},
	{"alg", unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
	{"alg, a bit above", bit32 | unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
	{"vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0},
	{"packet raw", unix.AF_PACKET, unix.SOCK_RAW, 0x300},
	{"packet datagram", unix.AF_PACKET, unix.SOCK_DGRAM, 0x300},
	{"packet SOCK_PACKET", unix.AF_PACKET, unix.SOCK_PACKET, 0x300},
	{"xdp", unix.AF_XDP, unix.SOCK_RAW, 0},
	{"netlink route", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE},
	{"netlink route datagram", unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_ROUTE},
	{"netlink diag", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG},
	{"netlink xfrm", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM},
	{"netlink audit", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT},
	{"netlink netfilter", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER},
	{"netlink uevent", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT},
	{"netlink generic", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC},
	{"netlink netfilter, a bit above", bit32 | unix.AF_NETLINK, unix.SOCK_RAW, bit32 | unix.NETLINK_NETFILTER},
	{"all bits", ^uintptr(0), unix.SOCK_STREAM, 0},
}

// sockets are the sockets, and what a server does with one.
func sockets() []attempt {
	list := []attempt{
		{"connect", call(unix.SYS_CONNECT, none, zeroes(16), 16)},
		{"bind", call(unix.SYS_BIND, none, zeroes(16), 16)},
		{"listen", call(unix.SYS_LISTEN, none, 1)},
		{"accept4", call(unix.SYS_ACCEPT4, none, 0, 0, 0)},
		{"socketpair unix", call(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM, 0, zeroes(8))},
		{"socketpair unix sequence", call(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_SEQPACKET, 0, zeroes(8))},
		{"socketpair unix datagram", call(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_DGRAM, 0, zeroes(8))},
		{"socketpair unix raw", call(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_RAW, 0, zeroes(8))},
		{"socketpair inet", call(unix.SYS_SOCKETPAIR, unix.AF_INET, unix.SOCK_STREAM, 0, zeroes(8))},
		{"socketpair tipc", call(unix.SYS_SOCKETPAIR, unix.AF_TIPC, unix.SOCK_STREAM, 0, zeroes(8))},
	}
	for _, s := range made {
		list = append(list, attempt{"socket " + s.name, call(unix.SYS_SOCKET, s.family, s.kind, s.protocol)})
	}
	for f := range uintptr(families + 1) {
		switch f {
		case unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK:
			continue // These are above, by name.
		}
		list = append(list, attempt{fmt.Sprintf("socket of family %d", f), call(unix.SYS_SOCKET, f, unix.SOCK_DGRAM, 0)})
	}
	return aliases(list)
}
