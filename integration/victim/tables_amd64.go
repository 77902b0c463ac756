package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// x32Bit marks a call of the x32 table, which a 64-bit program can make.
const x32Bit = 1 << 30

// int80 makes an i386 call from this program, and gives what is left in eax.
func int80(nr, a, b, c, d, e uint32) uint32

// otherTables are calls by the two other tables that this machine may have.
func otherTables() []attempt {
	list := []attempt{{"tuxcall", call(184)}}
	for _, c := range byX32() {
		list = append(list, attempt{"x32 " + c.name, c.do})
	}
	for _, c := range byI386 {
		list = append(list, attempt{"int80 " + c.name, i386(c.nr, c.args)})
	}
	return list
}

// byX32 has the numbers that x32 shares and, above 512, those of its own.
func byX32() []attempt {
	var list []attempt
	for name, nr := range map[string]uintptr{
		"getpid": unix.SYS_GETPID, "mount": unix.SYS_MOUNT, "unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS,
		"socket": unix.SYS_SOCKET, "bpf": unix.SYS_BPF, "keyctl": unix.SYS_KEYCTL, "pivot_root": unix.SYS_PIVOT_ROOT,
		"io_uring_setup": unix.SYS_IO_URING_SETUP, "open_tree": unix.SYS_OPEN_TREE, "fsopen": unix.SYS_FSOPEN,
		"clone3": unix.SYS_CLONE3, "ioctl": 514, "readv": 515, "execve": 520, "ptrace": 521, "kexec_load": 528,
		"vmsplice": 532, "move_pages": 533, "process_vm_readv": 539, "process_vm_writev": 540, "setsockopt": 541,
		"io_setup": 543, "execveat": 545,
	} {
		list = append(list, attempt{name, call(x32Bit|nr, 0, 0, 0, 0, 0, 0)})
	}
	return append(list, attempt{"clone user", forking(x32Bit|unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD))})
}

// byI386 are numbers of the i386 table. socketcall gets the address of its
// arguments, where no filter can look: a socket of AF_ALG.
var byI386 = []struct {
	name string
	nr   uint32
	args func() [5]uint32
}{
	{"getpid", 20, nothing},
	{"mount", 21, nothing},
	{"ptrace traceme", 26, nothing},
	{"socketcall alg", 102, algCall},
	{"clone user", 120, func() [5]uint32 { return [5]uint32{unix.CLONE_NEWUSER | uint32(unix.SIGCHLD)} }},
	{"keyctl", 288, nothing},
	{"unshare user", 310, func() [5]uint32 { return [5]uint32{unix.CLONE_NEWUSER} }},
	{"setns", 346, nothing},
	{"bpf", 357, nothing},
	{"socket inet raw", 359, func() [5]uint32 { return [5]uint32{unix.AF_INET, unix.SOCK_RAW, 1} }},
	{"io_uring_setup", 425, nothing},
	{"open_tree", 428, nothing},
}

func nothing() [5]uint32 { return [5]uint32{} }

// algCall is SYS_SOCKET of socketcall with three words in memory.
func algCall() [5]uint32 {
	args := append(append(word(unix.AF_ALG, 4), word(unix.SOCK_SEQPACKET, 4)...), word(0, 4)...)
	return [5]uint32{1, uint32(data(args))}
}

// i386 ends the child of a clone.
func i386(nr uint32, args func() [5]uint32) func() error {
	a := args()
	return func() error {
		ret := int80(nr, a[0], a[1], a[2], a[3], a[4])
		if ret == 0 && nr == 120 {
			_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		if int32(ret) < 0 && int32(ret) > -4096 {
			return syscall.Errno(-int32(ret))
		}
		return nil
	}
}
