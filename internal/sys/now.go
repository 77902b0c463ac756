package sys

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls here are for descriptors with O_NONBLOCK, for which they return at
// once. So the Go scheduler is not told of them, as the same calls of package
// unix do: in case they block it wakes its monitor thread, which then looks
// every 20 microseconds whether they still do. A process that answers one
// packet and sleeps again spends more time on that than on the packet. A loop
// of nothing else must be interrupted by its caller: the scheduler cannot.

// ReadNow is read(2), begun again after EINTR. An error is the bare number,
// EAGAIN where there is nothing.
func ReadNow(fd int, b []byte) (int, error) { return transfer(unix.SYS_READ, fd, b) }

// WriteNow is write(2), with errors as [ReadNow]'s.
func WriteNow(fd int, b []byte) (int, error) { return transfer(unix.SYS_WRITE, fd, b) }

func transfer(call uintptr, fd int, b []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		if errno == 0 {
			return int(n), nil
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}

// SpliceNow moves up to n bytes by splice(2). Where a file takes part that is
// not a pipe it must not block either: SPLICE_F_NONBLOCK is for pipes alone.
func SpliceNow(from, to, n int) (int, error) {
	for {
		moved, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(n), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if errno == 0 {
			return int(moved), nil
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}

// ShutdownNow is shutdown(2) with SHUT_WR.
func ShutdownNow(fd int) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), unix.SHUT_WR, 0); errno != 0 {
		return errno
	}
	return nil
}

// ConnectNow is connect(2) to an address without a zone. Of a stream socket the
// first call gives EINPROGRESS as a rule, and each that follows EALREADY until
// there is a result, which is its own: nil or why it failed.
func ConnectNow(fd int, to netip.AddrPort) error {
	address := sockaddr(to)
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(address))), uintptr(len(address)))
	if errno != 0 {
		return errno
	}
	return nil
}

// sockaddr is a struct sockaddr_in or sockaddr_in6, see ip(7) and ipv6(7).
func sockaddr(to netip.AddrPort) []byte {
	family := uint16(unix.AF_INET)
	if !to.Addr().Is4() {
		family = unix.AF_INET6
	}
	b := binary.NativeEndian.AppendUint16(make([]byte, 0, unix.SizeofSockaddrInet6), family)
	b = binary.BigEndian.AppendUint16(b, to.Port())
	if to.Addr().Is4() {
		four := to.Addr().As4()
		return append(append(b, four[:]...), make([]byte, 8)...)
	}
	sixteen := to.Addr().As16()
	b = append(b, 0, 0, 0, 0) // sin6_flowinfo
	return append(append(b, sixteen[:]...), 0, 0, 0, 0)
}
