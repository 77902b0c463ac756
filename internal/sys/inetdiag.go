package sys

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Names and sizes of linux/inet_diag.h and linux/sock_diag.h.
const (
	diagByFamily    = 20 // SOCK_DIAG_BY_FAMILY
	diagCgroupID    = 21 // INET_DIAG_CGROUP_ID, Linux 5.9
	diagRequestSize = 56 // struct inet_diag_req_v2
	diagAnswerSize  = 72 // struct inet_diag_msg
	netlinkHeader   = 16 // struct nlmsghdr
	attributeHeader = 4  // struct rtattr
	noCookie        = 0xffffffff
	diagPorts       = 4  // in inet_diag_msg: its own port and the one it is connected to
	tcpListen       = 10 // TCP_LISTEN
	loopback        = 1  // lo's index in every network namespace
	anyState        = 0xffffffff
	// An answer has a header, the message and some attributes of a few bytes
	// each; memory and congestion information come only if asked for.
	diagRoom = 4096
)

// ErrNoSocket says that there is no such connected socket in the namespace.
var ErrNoSocket = errors.New("no such socket")

// SocketCgroup tells the id of the cgroup v2 that a connected TCP socket belongs
// to, which is the one of the process that made it. The socket is named by its
// own address and the one it is connected to; diag is a NETLINK_SOCK_DIAG socket
// that was made in the same network namespace. It needs no privilege (Linux
// 5.9; some 5 to 9 microseconds). A socket that is gone, or of which only a TIME_WAIT
// is left, has no cgroup any more: [ErrNoSocket]. Both addresses are of lo.
func SocketCgroup(diag int, own, connectedTo netip.AddrPort) (uint64, error) {
	if err := unix.Sendto(diag, diagRequest(own, connectedTo), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, os.NewSyscallError("sendto(NETLINK_SOCK_DIAG)", err)
	}
	answer := make([]byte, diagRoom)
	// The kernel has answered before sendto returns: nothing is waited for.
	n, _, err := unix.Recvfrom(diag, answer, unix.MSG_DONTWAIT)
	if err != nil {
		return 0, os.NewSyscallError("recvfrom(NETLINK_SOCK_DIAG)", err)
	}
	message, err := diagAnswer(answer[:n])
	if err != nil {
		return 0, err
	}
	if !isConnected(message, own, connectedTo) {
		return 0, ErrNoSocket
	}
	return cgroupAttribute(message[diagAnswerSize:])
}

// isConnected is there since the kernel, having found no connected socket, looks
// for one that listens on its port: anybody's.
func isConnected(message []byte, own, connectedTo netip.AddrPort) bool {
	ports := binary.BigEndian.AppendUint16(nil, own.Port())
	ports = binary.BigEndian.AppendUint16(ports, connectedTo.Port())
	return message[1] != tcpListen && string(message[diagPorts:diagPorts+4]) == string(ports)
}

// diagRequest is a struct nlmsghdr and a struct inet_diag_req_v2 for one exact
// socket.
func diagRequest(own, connectedTo netip.AddrPort) []byte {
	const size = netlinkHeader + diagRequestSize
	b := make([]byte, 0, size)
	b = binary.NativeEndian.AppendUint32(b, size)
	b = binary.NativeEndian.AppendUint16(b, diagByFamily)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence, port: the socket has one answer at a time
	family := byte(unix.AF_INET6)
	if own.Addr().Is4() {
		family = unix.AF_INET
	}
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, anyState)
	b = binary.BigEndian.AppendUint16(b, own.Port())
	b = binary.BigEndian.AppendUint16(b, connectedTo.Port())
	b = appendAddr(b, own.Addr())
	b = appendAddr(b, connectedTo.Addr())
	b = binary.NativeEndian.AppendUint32(b, loopback) // or none: bound to that or to no device
	b = binary.NativeEndian.AppendUint32(b, noCookie)
	return binary.NativeEndian.AppendUint32(b, noCookie)
}

// appendAddr fills the 16 bytes that both families have.
func appendAddr(b []byte, addr netip.Addr) []byte {
	raw := addr.AsSlice()
	return append(append(b, raw...), make([]byte, 16-len(raw))...)
}

// diagAnswer gives the struct inet_diag_msg with the attributes behind it.
func diagAnswer(b []byte) ([]byte, error) {
	if len(b) < netlinkHeader {
		return nil, fmt.Errorf("sock_diag: answer of %d bytes", len(b))
	}
	switch kind := binary.NativeEndian.Uint16(b[4:]); kind {
	case unix.NLMSG_ERROR:
		return nil, diagError(b[netlinkHeader:])
	case diagByFamily:
	default:
		return nil, fmt.Errorf("sock_diag: answer of type %d, want %d", kind, diagByFamily)
	}
	if len(b) < netlinkHeader+diagAnswerSize {
		return nil, fmt.Errorf("sock_diag: answer of %d bytes", len(b))
	}
	return b[netlinkHeader:], nil
}

func diagError(b []byte) error {
	if len(b) < 4 {
		return errors.New("sock_diag: error without a number")
	}
	errno := unix.Errno(-int32(binary.NativeEndian.Uint32(b)))
	if errno == unix.ENOENT {
		return ErrNoSocket
	}
	return os.NewSyscallError("sock_diag", errno)
}

// cgroupAttribute looks through a row of struct rtattr, each padded to 4 bytes.
func cgroupAttribute(b []byte) (uint64, error) {
	for len(b) >= attributeHeader {
		size, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
		if size < attributeHeader || size > len(b) {
			break
		}
		if kind == diagCgroupID && size == attributeHeader+8 {
			return binary.NativeEndian.Uint64(b[attributeHeader:]), nil
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return 0, ErrNoSocket
}
