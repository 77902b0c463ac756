//go:build kernel

package confine

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// attacks are what a payload would have the process do, once it has found a way
// to make it run code of its own. filtered is what the whole confinement must
// answer: 0 is death by the filter. bare is the answer where the filter lets
// everything through, so that the other barriers are seen to stand alone; 0
// is "not told", for calls that only the filter keeps away.
var attacks = []struct {
	name  string
	bare  unix.Errno
	proxy bool // the proxy is allowed it
	do    func() unix.Errno
}{
	{"exec", unix.EACCES, false, func() unix.Errno { return errno(unix.Exec("/.", []string{"x"}, nil)) }},
	{"exec by descriptor", 0, false, func() unix.Errno { return raw(unix.SYS_EXECVEAT, 0, 0, 0, 0, unix.AT_EMPTY_PATH) }},
	{"open", unix.ENOENT, false, func() unix.Errno { return errno(openErr("/etc/passwd")) }},
	{"open root", unix.EACCES, false, func() unix.Errno { return errno(openErr("/")) }},
	{"mkdir", unix.EACCES, false, func() unix.Errno { return errno(unix.Mkdir("/x", 0o700)) }},
	{"chroot", unix.EPERM, false, func() unix.Errno { return errno(unix.Chroot("/")) }},
	{"mount", unix.EPERM, false, func() unix.Errno { return errno(unix.Mount("none", "/", "tmpfs", 0, "")) }},
	{"setuid 0", unix.EPERM, false, func() unix.Errno { return raw(unix.SYS_SETUID, 0) }},
	{"setgroups", unix.EPERM, false, func() unix.Errno { return raw(unix.SYS_SETGROUPS, 0) }},
	{"ptrace the parent", unix.EPERM, false, func() unix.Errno { return raw(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(parent)) }},
	{"kill the parent", unix.EPERM, false, func() unix.Errno { return raw(unix.SYS_KILL, uintptr(parent), uintptr(unix.SIGCONT)) }},
	{"tgkill the parent", unix.EPERM, false, func() unix.Errno {
		return raw(unix.SYS_TGKILL, uintptr(parent), uintptr(parent), uintptr(unix.SIGCONT))
	}},
	{"kill everybody of its user", 0, false, func() unix.Errno { return raw(unix.SYS_KILL, ^uintptr(0), 0) }},
	{"user namespace", unix.EPERM, false, func() unix.Errno { return raw(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)) }},
	{"network namespace", unix.EPERM, false, func() unix.Errno { return raw(unix.SYS_UNSHARE, unix.CLONE_NEWNET) }},
	{"fork", 0, false, func() unix.Errno { return raw(unix.SYS_CLONE, uintptr(unix.SIGCHLD)) }},
	{"thread in a new namespace", unix.EPERM, false, func() unix.Errno {
		return raw(unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_SIGHAND|unix.CLONE_THREAD|unix.CLONE_NEWNET)
	}},
	{"clone3", 0, false, func() unix.Errno { return raw(unix.SYS_CLONE3, 0, 0) }},
	{"raw socket", unix.EPERM, false, func() unix.Errno { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
	{"packet socket", unix.EPERM, false, func() unix.Errno { return socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0) }},
	{"netlink socket", 0, false, func() unix.Errno { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE) }},
	{"unix socket", 0, false, func() unix.Errno { return socket(unix.AF_UNIX, unix.SOCK_STREAM, 0) }},
	{"sctp socket", 0, false, func() unix.Errno { return socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP) }},
	{"mptcp socket", 0, false, func() unix.Errno { return socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP) }},
	{"ping socket", 0, false, func() unix.Errno { return socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP) }},
	{"tcp socket", 0, true, func() unix.Errno { return socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0) }},
	{"udp socket", 0, true, func() unix.Errno { return socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP) }},
	{"listen", unix.EACCES, false, listen},
	{"code in memory", 0, false, func() unix.Errno {
		return raw(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON, ^uintptr(0), 0)
	}},
	{"memory made code", 0, false, func() unix.Errno { return raw(unix.SYS_MPROTECT, 0, 0, unix.PROT_EXEC) }},
	{"own memory by descriptor", 0, false, func() unix.Errno { return raw(unix.SYS_MEMFD_CREATE, 0, 0) }},
	{"other memory", unix.EPERM, false, readParent},
	{"be traceable again", 0, false, func() unix.Errno { return raw(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1) }},
	{"a filter of its own", 0, false, func() unix.Errno { return raw(unix.SYS_SECCOMP, 99) }},
	{"io_uring", 0, false, func() unix.Errno { return raw(unix.SYS_IO_URING_SETUP, 1, 0) }},
	{"bpf", 0, false, func() unix.Errno { return raw(unix.SYS_BPF, 99) }},
	{"keyring", 0, false, func() unix.Errno { return raw(unix.SYS_KEYCTL, 0, 0) }},
	{"pidfd", 0, false, func() unix.Errno { return raw(unix.SYS_PIDFD_OPEN, uintptr(parent), 0) }},
	{"more descriptors", unix.EPERM, false, func() unix.Errno {
		return errno(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 19, Max: 1 << 19}))
	}},
	{"ioctl", 0, false, func() unix.Errno { return raw(unix.SYS_IOCTL, 0, unix.TIOCSTI, 0) }},
	{"a call of the future", 0, false, func() unix.Errno { return raw(2000) }},
	{"the other table of calls", 0, false, func() unix.Errno { return raw(0x40000000 + 39) }}, // x32 getpid
}

// parent is asked for before, since asking for it is no call of the filter's.
var parent = os.Getppid()

func raw(nr uintptr, args ...uintptr) unix.Errno {
	var a [6]uintptr
	copy(a[:], args)
	_, _, e := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	return e
}

func errno(err error) unix.Errno {
	if e, ok := err.(unix.Errno); ok { //nolint:errorlint // the calls above return it bare
		return e
	}
	return 0
}

func openErr(path string) error {
	_, err := unix.Open(path, unix.O_RDONLY, 0)
	return err
}

func socket(family, kind, protocol int) unix.Errno {
	_, err := unix.Socket(family, kind, protocol)
	return errno(err)
}

func listen() unix.Errno {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return errno(err)
	}
	return errno(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
}

// readParent reads a word that both programs have at one place, if it may.
func readParent() unix.Errno {
	word := make([]byte, 8)
	local := unix.Iovec{Base: &word[0], Len: 8}
	remote := unix.RemoteIovec{Base: 0x400000, Len: 8}
	_, err := unix.ProcessVMReadv(parent, []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0)
	runtime.KeepAlive(word)
	return errno(err)
}
