package seccomp

import "sync"

// maxCall is the newest call that has been judged. What is newer answers
// ENOSYS, as on the kernel before it, and programs fall back: a list of denied
// names would let each new way to mount or to tag a file through. 471
// (rseq_slice_yield) is known and left out on purpose: no released C library
// or language runtime asks for it.
const maxCall = 470

// The architecture as the kernel reports it (AUDIT_ARCH_*). An i386 or ARM
// program has other numbers for the same calls, so it is not looked at but
// killed. An x32 call comes as amd64 with bit 30 set, which is above maxCall.
var archTokens = map[Arch]uint32{AMD64: 0xc000003e, ARM64: 0xc00000b7}

// The parts of the socket rules.
const (
	afUnix, afInet, afInet6, afNetlink = 1, 2, 10, 16

	stream, dgram, raw, seqpacket, packet = 1, 2, 3, 5, 10

	tcp, udp, mptcp = 6, 17, 262
)

// family, kind and protocol are the arguments of socket and socketpair. Kind
// carries SOCK_CLOEXEC and SOCK_NONBLOCK above its low four bits.
var (
	family   = arg(0)
	kind     = arg(1).masked(0xf)
	protocol = arg(2)
)

// rules is the whole second layer but for the prologue (see [Build]). A call
// that has no row, or whose row does not count under a policy, is allowed.
// README.md says what each row breaks; the order is that of its table. It is
// made when it is asked for: every start of the program would pay for it
// otherwise, and each container has two.
var rules = sync.OnceValue(func() []rule {
	return []rule{
		// Kernel interfaces without a use in a container.
		{
			calls: "io_uring_setup io_uring_enter io_uring_register memfd_secret process_mrelease process_madvise " +
				"statmount listmount listns lsm_set_self_attr userfaultfd modify_ldt " +
				"uselib _sysctl nfsservctl lookup_dcookie vserver tuxcall afs_syscall",
			verdict: errNoSys,
		},
		{calls: "kcmp bpf fanotify_init fanotify_mark", verdict: errPerm},

		// Mounts. open_tree_attr (Linux 6.15) opens what open_tree does.
		{
			calls: "mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick move_mount " +
				"open_tree open_tree_attr mount_setattr",
			verdict: errPerm,
		},

		// Namespaces. What stays of unshare are FS, FILES and SYSVSEM; the kernel
		// reads that argument whole. clone3 has its flags in memory, and ENOSYS
		// sends every C library back to clone. In clone, 0x80 is no NEWTIME but a
		// bit of the exit signal.
		{calls: "setns", verdict: errPerm},
		{
			calls:   "unshare",
			clauses: []clause{when(arg(0).masked(^uint32(0x40600)).is(0), arg(0).upper().is(0)).do(Allow)},
			verdict: errPerm,
		},
		{calls: "clone3", verdict: errNoSys},
		{
			// NEWNS CGROUP UTS IPC USER PID NET.
			calls: "clone", clauses: []clause{when(arg(0).hasAny(0x7e020000)).do(errPerm)}, verdict: Allow,
		},

		// Other processes. pidfd_open and pidfd_send_signal stay: Go and Python
		// use them, and they reach no further than kill does.
		{calls: "process_vm_readv process_vm_writev pidfd_getfd migrate_pages move_pages", verdict: errPerm},
		{calls: "ptrace", unless: ptrace, verdict: errPerm},

		// File handles, and quota with the project flags it is counted by.
		// file_setattr (Linux 6.17) sets them without an ioctl.
		{calls: "name_to_handle_at", verdict: errNoSupp},
		{calls: "open_by_handle_at quotactl quotactl_fd file_setattr", verdict: errPerm},

		// Keys are not kept apart by any namespace.
		{calls: "add_key request_key keyctl", verdict: errPerm},

		// The kernel, its clock, the host. adjtimex and clock_adjtime read, too,
		// and the kernel checks who writes.
		{
			calls: "init_module finit_module delete_module create_module get_kernel_syms query_module " +
				"kexec_load kexec_file_load reboot swapon swapoff acct syslog iopl ioperm " +
				"settimeofday clock_settime stime sethostname setdomainname vhangup perf_event_open ustat sysfs",
			verdict: errPerm,
		},

		// Devices. S_IFMT of the mode is a character or a block device.
		{calls: "mknod", clauses: []clause{when(arg(1).masked(0xf000).is(0x2000, 0x6000)).do(errPerm)}, verdict: Allow},
		{calls: "mknodat", clauses: []clause{when(arg(2).masked(0xf000).is(0x2000, 0x6000)).do(errPerm)}, verdict: Allow},

		// PER_LINUX and PER_LINUX32, each also with UNAME26, and asking.
		{
			calls: "personality",
			clauses: []clause{
				when(arg(0).is(0, 8, 0x20000, 0x20008, 0xffffffff)).do(Allow),
				when(arg(0).is(0x40000)).with(noRandomize).do(Allow),
			},
			verdict: errPerm,
		},
		// PR_SET_MM, PR_SET_IO_FLUSHER, PR_SET_MEMORY_MERGE.
		{calls: "prctl", clauses: []clause{when(arg(0).is(35, 57, 67)).do(errPerm)}, verdict: Allow},
		{
			calls: "ioctl",
			clauses: []clause{when(arg(1).is(
				0x401c5820,             // FS_IOC_FSSETXATTR
				0x40086602, 0x40046602, // FS_IOC_SETFLAGS, FS_IOC32_SETFLAGS
				0x5412, 0x541c, 0x541d, // TIOCSTI, TIOCLINUX, TIOCCONS
				0x5423, // TIOCSETD, which loads a module for a line discipline
			)).do(errPerm)},
			verdict: Allow,
		},

		// Sockets, by (family, kind, protocol): a list of denied families is passed
		// by by SOCK_PACKET of AF_INET, by SMC, SCTP and L2TP.
		{calls: "socket connect", unless: sockets, verdict: errPerm},
		{
			calls: "socket", given: sockets,
			clauses: []clause{
				when(family.is(afUnix), kind.is(stream, dgram, seqpacket), protocol.is(0)).with(local).do(Allow),
				when(family.is(afInet, afInet6), kind.is(stream), protocol.is(0, tcp, mptcp)).with(inet).do(Allow),
				when(family.is(afInet, afInet6), kind.is(dgram), protocol.is(0, udp)).with(inet).do(Allow),
				when(family.is(afNetlink), kind.is(dgram, raw), protocol.is(0)).do(Allow), // NETLINK_ROUTE
				// Why not: first the kind, then the protocol, then the family. Raw is
				// netlink's usual kind, so that its fault is the protocol.
				when(family.is(afUnix), kind.is(raw, packet)).with(local).do(errPerm),
				when(family.is(afInet, afInet6), kind.is(raw, packet)).with(inet).do(errPerm),
				when(family.is(afUnix)).with(local).do(errNoProto),
				when(family.is(afInet, afInet6)).with(inet).do(errNoProto),
				when(family.is(afNetlink)).do(errNoProto),
			},
			verdict: errNoFamily,
		},
		// One end of a pair of datagram sockets sends to any name it is told, by
		// sendmsg, whose address no filter sees: a way to the sockets of others in a
		// mount or namespace that is shared (tried). The other kinds are bound to
		// their pair for good.
		{
			calls: "socketpair",
			clauses: []clause{
				when(family.is(afUnix), kind.is(stream, seqpacket), protocol.is(0)).do(Allow),
				when(family.is(afUnix), kind.is(dgram), protocol.is(0)).with(local).do(Allow),
				when(family.is(afUnix), kind.is(dgram, raw, packet)).do(errPerm),
				when(family.is(afUnix)).do(errNoProto),
			},
			verdict: errNoFamily,
		},
		{calls: "bind listen accept accept4", unless: listen, verdict: errPerm},
		{
			calls: "setsockopt",
			clauses: []clause{
				// Multicast joins (data chosen by the program leaves as IGMP or MLD,
				// past every socket filter) and the tables of iptables and arptables.
				when(arg(1).is(0), arg(2).is(35, 39, 42, 43, 44, 45, 46, 47, 48, 64, 65, 96, 97, 128, 129)).do(errNoOpt),
				// The same of IPv6. 66 and 67 are RECVTCLASS and TCLASS.
				when(arg(1).is(41), arg(2).is(20, 27, 42, 43, 44, 45, 46, 47, 48, 64, 65)).do(errNoOpt),
				when(arg(1).is(6), arg(2).is(31)).do(errNoEnt), // TCP_ULP, as where no kTLS is built
				when(arg(1).is(6), arg(2).is(19)).do(errNoOpt), // TCP_REPAIR
				// SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_EBPF.
				when(arg(1).is(1), arg(2).is(50, 52)).do(errNoOpt),
			},
			verdict: Allow,
		},
	}
})
