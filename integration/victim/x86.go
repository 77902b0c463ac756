//go:build amd64 || 386

package main

import "golang.org/x/sys/unix"

// ofX86 are calls that newer machines do not have.
func ofX86() []attempt {
	char, block := uintptr(unix.S_IFCHR|0o600), uintptr(unix.S_IFBLK|0o600)
	return append(oldOnes(), aliases([]attempt{
		{"modify_ldt", call(unix.SYS_MODIFY_LDT, 0, zeroes(16), 16)},
		{"iopl", call(unix.SYS_IOPL, 0)},
		{"ioperm", call(unix.SYS_IOPERM, 0, 1, 0)},
		{"ustat", call(unix.SYS_USTAT, 0, zeroes(64))},
		{"sysfs", call(unix.SYS_SYSFS, 3)},
		{"mknod char", call(unix.SYS_MKNOD, text("/tmp/char-old"), char, uintptr(unix.Mkdev(1, 5)))},
		{"mknod block", call(unix.SYS_MKNOD, text("/tmp/block-old"), block, uintptr(unix.Mkdev(7, 0)))},
		{"mknod block, a bit above", call(unix.SYS_MKNOD, text("/tmp/block-above"), bit32|0xf0000|block, uintptr(unix.Mkdev(7, 0)))},
		{"allowed mknod fifo", call(unix.SYS_MKNOD, text("/tmp/old-fifo-"+pid()), unix.S_IFIFO|0o600, 0)},
		{"allowed fork", forking(unix.SYS_FORK)},
	})...)
}

// oldOnes the kernel has dropped, but their numbers are there.
func oldOnes() []attempt {
	return []attempt{
		{"uselib", call(unix.SYS_USELIB, text("/nowhere"))},
		{"_sysctl", call(unix.SYS__SYSCTL, 0)},
		{"nfsservctl", call(unix.SYS_NFSSERVCTL, 0, 0, 0)},
		{"lookup_dcookie", call(unix.SYS_LOOKUP_DCOOKIE, 0, 0, 0)},
		{"vserver", call(unix.SYS_VSERVER)},
		{"afs_syscall", call(unix.SYS_AFS_SYSCALL)},
		{"create_module", call(unix.SYS_CREATE_MODULE, text("nowhere"), 0)},
		{"get_kernel_syms", call(unix.SYS_GET_KERNEL_SYMS, 0)},
		{"query_module", call(unix.SYS_QUERY_MODULE, 0, 0, 0, 0, 0)},
	}
}
