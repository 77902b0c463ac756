package main

import (
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attempt is one thing to try. Every one is harmless where it is let through:
// the same list is tried without any policy, in a container with every right.
type attempt struct {
	name string
	do   func() error
}

// page is the memory that calls point into. It lies in the program and not on
// the heap, so that its address fits the 32 bits of an i386 call.
var page [1 << 16]byte

// filled is how much of page is in use.
var filled uintptr

// arena is the address of page: in assembly, so that nothing here is unsafe.
func arena() uintptr

// text is the address of a C string.
func text(s string) uintptr { return data([]byte(s + "\x00")) }

// data is the address of a copy of b, at a multiple of 16.
func data(b []byte) uintptr {
	at := filled
	copy(page[at:], b)
	filled = (at + uintptr(len(b)) + 15) &^ 15
	return arena() + at
}

// zeroes is the address of n zero bytes.
func zeroes(n int) uintptr { return data(make([]byte, n)) }

// word is a number as the kernel reads it from memory, in n bytes.
func word(v uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
	return b
}

// call makes a system call, without a look at what it means.
func call(nr uintptr, args ...uintptr) func() error {
	var a [6]uintptr
	copy(a[:], args)
	return func() error {
		_, _, errno := syscall.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		return fault(errno)
	}
}

// fault: an Errno of zero is not a nil error.
func fault(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// callOn is call with a new descriptor as its first argument.
func callOn(open func() (int, error), nr uintptr, args ...uintptr) func() error {
	return func() error {
		fd, err := open()
		if err != nil {
			return err
		}
		return call(nr, append([]uintptr{uintptr(fd)}, args...)...)()
	}
}

// forking is call for what may return twice; the child ends at once.
func forking(nr uintptr, args ...uintptr) func() error {
	var a [6]uintptr
	copy(a[:], args)
	return func() error {
		pid, _, errno := syscall.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		if errno == 0 && pid == 0 {
			_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		return fault(errno)
	}
}

// inChild makes a call in a child without a Go runtime, which a signal of that
// runtime's own cannot stop, and gives the child's result.
func inChild(nr uintptr, args ...uintptr) func() error {
	var a [6]uintptr
	copy(a[:], args)
	return func() error {
		pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && pid == 0 {
			_, _, errno = syscall.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
			_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
		}
		if errno != 0 {
			return errno
		}
		var status unix.WaitStatus
		if _, err := unix.Wait4(int(pid), &status, 0, nil); err != nil {
			return err
		}
		return fault(syscall.Errno(status.ExitStatus()))
	}
}

// inChildOn is inChild with a descriptor, as callOn.
func inChildOn(open func() (int, error), nr uintptr, args ...uintptr) func() error {
	return func() error {
		fd, err := open()
		if err != nil {
			return err
		}
		return inChild(nr, append([]uintptr{uintptr(fd)}, args...)...)()
	}
}

// opened is for callOn.
func opened(path string, flags int) func() (int, error) {
	return func() (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC, 0o600) }
}

// attempts is everything there is, the names distinct.
func attempts() []attempt {
	filled = 0
	calls := slices.Concat(mounts(), namespaces(), interfaces(), processes(), handles(), host(), terminals(),
		sockets(), options(), allowed(), ofX86())
	return slices.Concat(calls, otherTables(), files(), identity())
}

// bit32 is above what the kernel looks at in many arguments; where a word has
// no such bit there is no such attempt.
const bit32 = uintptr(1) << (32 * (^uintptr(0) >> 63))

// aliases leaves out what only differs in that bit where it does not exist.
func aliases(list []attempt) []attempt {
	return slices.DeleteFunc(list, func(a attempt) bool {
		return bit32 == 1 && strings.HasSuffix(a.name, ", a bit above")
	})
}
