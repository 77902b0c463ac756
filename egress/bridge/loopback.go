package bridge

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
)

// loopback is lo's index in every network namespace (LOOPBACK_IFINDEX).
const loopback = 1

// raiseLoopback puts lo up, and has the kernel take every synthetic address for
// one of its own (AnyIP: a route of type local). Two messages of rtnetlink(7),
// written here since a library for them would be linked into the bridge.
func raiseLoopback(anyIP bool) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("socket(NETLINK_ROUTE)", err)
	}
	defer unix.Close(fd)
	if err := request(fd, linkUp()); err != nil {
		return fmt.Errorf("put lo up: %w", err)
	}
	if !anyIP {
		return nil
	}
	if err := request(fd, localRoute(egress.Synthetic)); err != nil {
		return fmt.Errorf("route %v to lo: %w", egress.Synthetic, err)
	}
	return nil
}

// linkUp is RTM_NEWLINK with a struct ifinfomsg for lo: flags and their mask.
func linkUp() []byte {
	b := header(unix.RTM_NEWLINK, 0)
	b = append(b, unix.AF_UNSPEC, 0, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, loopback)
	b = binary.NativeEndian.AppendUint32(b, unix.IFF_UP)
	return binary.NativeEndian.AppendUint32(b, unix.IFF_UP)
}

// localRoute is RTM_NEWROUTE with a struct rtmsg and two attributes.
func localRoute(to netip.Prefix) []byte {
	b := header(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
	b = append(b, unix.AF_INET, byte(to.Bits()), 0, 0,
		unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0)
	b = append(attribute(b, unix.RTA_DST), to.Addr().AsSlice()...)
	return binary.NativeEndian.AppendUint32(attribute(b, unix.RTA_OIF), loopback)
}

// header is a struct nlmsghdr; request fills in the length.
func header(kind, flags uint16) []byte {
	b := binary.NativeEndian.AppendUint16(make([]byte, 4, 64), kind)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	return append(b, make([]byte, 8)...)
}

// attribute begins a struct rtattr with four bytes of data.
func attribute(b []byte, kind uint16) []byte {
	b = binary.NativeEndian.AppendUint16(b, unix.SizeofRtAttr+4)
	return binary.NativeEndian.AppendUint16(b, kind)
}

// request sends a message and waits for the acknowledgement, which is a number
// of type NLMSG_ERROR, 0 for done.
func request(fd int, message []byte) error {
	binary.NativeEndian.PutUint32(message, uint32(len(message)))
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	var answer [1024]byte
	n, _, err := unix.Recvfrom(fd, answer[:], 0)
	if err != nil {
		return os.NewSyscallError("recvfrom", err)
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return fmt.Errorf("rtnetlink: saw an answer of %d bytes that is no acknowledgement", n)
	}
	if errno := -int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
		return os.NewSyscallError("rtnetlink", unix.Errno(errno))
	}
	return nil
}
