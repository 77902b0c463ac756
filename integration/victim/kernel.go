package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// interfaces are what a program in a container has no use for.
func interfaces() []attempt {
	return []attempt{
		{"io_uring_setup", call(unix.SYS_IO_URING_SETUP, 1, zeroes(120))},
		{"io_uring_enter", call(unix.SYS_IO_URING_ENTER, none, 1, 0, 0, 0, 0)},
		{"io_uring_register", call(unix.SYS_IO_URING_REGISTER, none, 0, 0, 0)},
		{"memfd_secret", call(unix.SYS_MEMFD_SECRET, 0)},
		{"process_mrelease", call(unix.SYS_PROCESS_MRELEASE, none, 0)},
		{"process_madvise", call(unix.SYS_PROCESS_MADVISE, none, zeroes(16), 1, unix.MADV_COLD, 0)},
		{"statmount", call(unix.SYS_STATMOUNT, zeroes(32), zeroes(64), 64, 0)},
		{"listmount", call(unix.SYS_LISTMOUNT, data(append(word(24, 8), word(^uint64(0), 8)...)), zeroes(64), 8, 0)},
		{"listns", call(unix.SYS_LISTNS, zeroes(32), zeroes(64), 8, 0)},
		{"lsm_set_self_attr", call(unix.SYS_LSM_SET_SELF_ATTR, 0, zeroes(32), 32, 0)},
		{"userfaultfd", call(unix.SYS_USERFAULTFD, 1)},
		{"bpf map", call(unix.SYS_BPF, 0, data(append(word(1, 4), append(word(4, 4), append(word(4, 4), word(4, 4)...)...)...)), 16)},
		{"bpf program", call(unix.SYS_BPF, 5, zeroes(64), 64)},
		{"kcmp", call(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(os.Getpid()), 1, 0, 0)},
		{"fanotify_init", call(unix.SYS_FANOTIFY_INIT, 0, 0)},
		{"fanotify_mark", call(unix.SYS_FANOTIFY_MARK, none, 1, 2, 0, cwd, text("/"))},
		{"perf_event_open", call(unix.SYS_PERF_EVENT_OPEN, data(append(word(1, 4), append(word(112, 4), make([]byte, 104)...)...)), 0, none, none, 0)},
		{"call 471", call(471)},
		{"call 472", call(472)},
		{"call 1000", call(1000)},
		{"call of all bits", call(uintptr(0xffffffff) >> 1)},
	}
}

// processes are ways to another process's memory and descriptors.
func processes() []attempt {
	self, parent := uintptr(os.Getpid()), uintptr(os.Getppid())
	vec := func() uintptr { return data(append(word(uint64(arena()), wordSize), word(8, wordSize)...)) }
	return []attempt{
		{"process_vm_readv", call(unix.SYS_PROCESS_VM_READV, self, vec(), 1, vec(), 1, 0)},
		{"process_vm_readv of init", call(unix.SYS_PROCESS_VM_READV, 1, 0, 0, 0, 0, 0)},
		{"process_vm_writev", call(unix.SYS_PROCESS_VM_WRITEV, self, vec(), 1, vec(), 1, 0)},
		{"pidfd_getfd", callOn(ownPidfd, unix.SYS_PIDFD_GETFD, 0, 0)},
		{"migrate_pages", call(unix.SYS_MIGRATE_PAGES, 0, 0, 0, 0)},
		{"move_pages", call(unix.SYS_MOVE_PAGES, 0, 0, 0, 0, 0, 0)},
		{"ptrace traceme", inChild(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0, 0)},
		{"ptrace seize", inChild(unix.SYS_PTRACE, unix.PTRACE_SEIZE, parent, 0, 0)},
		{"ptrace get filter", inChild(unix.SYS_PTRACE, unix.PTRACE_SECCOMP_GET_FILTER, parent, 0, 0)},
	}
}

// wordSize is that of a pointer in memory.
const wordSize = 4 << (^uintptr(0) >> 63)

// handles are ways past path names, and project quota.
func handles() []attempt {
	tmp, flags := opened("/tmp/flags", unix.O_RDWR|unix.O_CREAT), data(word(0, 8))
	return aliases([]attempt{
		{"open_by_handle_at", call(unix.SYS_OPEN_BY_HANDLE_AT, cwd, data(append(word(8, 4), make([]byte, 12)...)), 0)},
		{"name_to_handle_at", call(unix.SYS_NAME_TO_HANDLE_AT, cwd, text("/tmp"), data(append(word(64, 4), make([]byte, 80)...)), zeroes(8), 0)},
		{"quotactl", call(unix.SYS_QUOTACTL, 0x800001<<8, 0, 0, 0)}, // Q_SYNC of every file system
		{"quotactl_fd", callOn(opened("/", unix.O_RDONLY), unix.SYS_QUOTACTL_FD, 0x800001<<8, 0, 0)},
		{"file_setattr", call(unix.SYS_FILE_SETATTR, cwd, text("/tmp"), zeroes(32), 24, 0)},
		{"FSSETXATTR", callOn(tmp, unix.SYS_IOCTL, 0x401c5820, zeroes(28))},
		{"FSSETXATTR, a bit above", callOn(tmp, unix.SYS_IOCTL, bit32|0x401c5820, zeroes(28))},
		{"SETFLAGS", callOn(tmp, unix.SYS_IOCTL, 0x40086602, flags)},
		{"SETFLAGS, a bit above", callOn(tmp, unix.SYS_IOCTL, bit32|0x40086602, flags)},
		{"SETFLAGS of 32 bits", callOn(tmp, unix.SYS_IOCTL, 0x40046602, flags)},
		{"SETFLAGS of 32 bits, a bit above", callOn(tmp, unix.SYS_IOCTL, bit32|0x40046602, flags)},
		{"add_key", call(unix.SYS_ADD_KEY, text("user"), text("sage-victim"), text("x"), 1, ^uintptr(2))},
		{"request_key", call(unix.SYS_REQUEST_KEY, text("user"), text("sage-none"), 0, 0)},
		{"keyctl session", call(unix.SYS_KEYCTL, 0, ^uintptr(2), 0)},
		{"keyctl join", call(unix.SYS_KEYCTL, 1, text("sage-victim"))},
	})
}

// host is what changes the machine or its kernel. The arguments are wrong, so
// that a call which is let through says EINVAL or the like.
func host() []attempt {
	nowhere, bad := text("/nowhere"), data([]byte("\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f"))
	char, block := uintptr(unix.S_IFCHR|0o600), uintptr(unix.S_IFBLK|0o600)
	zero, loop := uintptr(unix.Mkdev(1, 5)), uintptr(unix.Mkdev(7, 0))
	return aliases([]attempt{
		{"init_module", call(unix.SYS_INIT_MODULE, zeroes(8), 8, text(""))},
		{"finit_module", call(unix.SYS_FINIT_MODULE, none, text(""), 0)},
		{"delete_module", call(unix.SYS_DELETE_MODULE, text("nowhere"), unix.O_NONBLOCK)},
		{"kexec_load", call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0xffff)},
		{"reboot", call(unix.SYS_REBOOT, 0, 0, 0, 0)},
		{"swapon", call(unix.SYS_SWAPON, nowhere, 0)},
		{"swapoff", call(unix.SYS_SWAPOFF, nowhere)},
		{"acct", call(unix.SYS_ACCT, nowhere)},
		{"syslog", call(unix.SYS_SYSLOG, 10, 0, 0)},
		{"settimeofday", call(unix.SYS_SETTIMEOFDAY, bad, 0)},
		{"clock_settime", call(unix.SYS_CLOCK_SETTIME, 1, bad)},
		{"sethostname", call(unix.SYS_SETHOSTNAME, text("victim"), 6)},
		{"setdomainname", call(unix.SYS_SETDOMAINNAME, text("victim"), 6)},
		{"vhangup", call(unix.SYS_VHANGUP)},
		{"mknodat char", call(unix.SYS_MKNODAT, cwd, text("/tmp/char"), char, zero)},
		{"mknodat block", call(unix.SYS_MKNODAT, cwd, text("/tmp/block"), block, loop)},
		{"mknodat char, a bit above", call(unix.SYS_MKNODAT, cwd, text("/tmp/char-above"), bit32|0xf0000|char, zero)},
		{"mknodat in dev", call(unix.SYS_MKNODAT, cwd, text("/dev/block"), block, loop)},
		{"personality no randomisation", call(unix.SYS_PERSONALITY, 0x40000)},
		{"personality read implies execute", call(unix.SYS_PERSONALITY, 0x400000)},
		{"personality mmap page zero", call(unix.SYS_PERSONALITY, 0x100000)},
		{"personality bsd", call(unix.SYS_PERSONALITY, 6)},
		{"prctl SET_MM", call(unix.SYS_PRCTL, unix.PR_SET_MM, unix.PR_SET_MM_BRK, 0, 0, 0)},
		{"prctl SET_MEMORY_MERGE", call(unix.SYS_PRCTL, unix.PR_SET_MEMORY_MERGE, 0, 0, 0, 0)},
		{"prctl SET_MEMORY_MERGE, a bit above", call(unix.SYS_PRCTL, bit32|unix.PR_SET_MEMORY_MERGE, 0, 0, 0, 0)},
		{"prctl SET_IO_FLUSHER", call(unix.SYS_PRCTL, unix.PR_SET_IO_FLUSHER, 0, 0, 0, 0)},
	})
}
