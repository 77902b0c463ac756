package sys

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// EveryThread makes one system call in every thread of the process, since the
// kernel keeps credentials, no_new_privs and Landlock for each thread. A thread
// that starts later inherits them. The call must give every thread the same
// answer, or the Go runtime ends the process. It is ENOTSUP in a program that
// is linked with cgo.
func EveryThread(name string, trap, a1, a2, a3 uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall6(trap, a1, a2, a3, 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError(name, errno)
	}
	return nil
}

// noCapabilities is what capset(2) is given. It is a variable of the package
// since its address is held as a number while threads are stopped, and a stack
// can move.
var noCapabilities = struct {
	header unix.CapUserHeader
	sets   [2]unix.CapUserData
}{header: unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}}

// ClearCapabilities empties the permitted, effective and inheritable sets of
// every thread, see capset(2). The bounding and the ambient set are prctl(2)'s.
func ClearCapabilities() error {
	header, sets := unsafe.Pointer(&noCapabilities.header), unsafe.Pointer(&noCapabilities.sets[0])
	return EveryThread("capset", unix.SYS_CAPSET, uintptr(header), uintptr(sets), 0)
}

// LoadFilterEverywhere sets no_new_privs and loads a seccomp filter for every
// thread of the process at once (SECCOMP_FILTER_FLAG_TSYNC of seccomp(2), Linux
// 3.17): either all have it afterwards, or none and an error says so.
func LoadFilterEverywhere(filter []byte) error {
	return loadFilter(filter, unix.SECCOMP_FILTER_FLAG_TSYNC)
}
