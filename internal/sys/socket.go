package sys

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Unnamed says whether fd is a connected AF_UNIX socket of which neither end
// has a name: one end of a socketpair, see unix(7). x/sys tells a socket without
// a name from one with an abstract name that begins with a zero byte only by
// this length, which it does not give.
func Unnamed(fd int) (bool, error) {
	for _, call := range []uintptr{unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME} {
		family, size, err := socketName(call, fd)
		switch {
		case errors.Is(err, unix.ENOTCONN):
			return false, nil
		case err != nil:
			return false, err
		case family != unix.AF_UNIX || size != unsafe.Sizeof(family):
			return false, nil
		}
	}
	return true, nil
}

func socketName(call uintptr, fd int) (family uint16, size uintptr, err error) {
	var address unix.RawSockaddrAny
	length := uint32(unsafe.Sizeof(address))
	_, _, errno := unix.Syscall(call, uintptr(fd), uintptr(unsafe.Pointer(&address)), uintptr(unsafe.Pointer(&length)))
	if errno != 0 {
		return 0, 0, os.NewSyscallError("getsockname", errno)
	}
	return address.Addr.Family, uintptr(length), nil
}
