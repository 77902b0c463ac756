package seccomp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The variants that the rows below are tried on.
var (
	strict = Policy{}
	client = Policy{Network: NetworkInet}
	agent  = Policy{Network: NetworkInetUnix, Listen: ListenLoopback, AllowPtrace: true, AllowNoRandomize: true}
)

// row is what the specification says of some calls, written down again from it
// and not from the table that is tested.
type row struct {
	name   string
	policy Policy
	calls  string
	args   [6]uint64
	want   Action
}

func a(args ...uint64) [6]uint64 {
	var six [6]uint64
	copy(six[:], args)
	return six
}

// always are rows in which no argument and no policy matters.
var always = []row{
	{name: "io_uring", calls: "io_uring_setup io_uring_enter io_uring_register", want: errNoSys},
	{name: "new interfaces", calls: "memfd_secret process_mrelease process_madvise statmount listmount listns lsm_set_self_attr userfaultfd", want: errNoSys},
	{name: "old interfaces", calls: "modify_ldt uselib _sysctl nfsservctl lookup_dcookie vserver tuxcall afs_syscall", want: errNoSys},
	{name: "inspection", calls: "bpf kcmp fanotify_init fanotify_mark", want: errPerm},
	{name: "mounts", calls: "mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick move_mount open_tree open_tree_attr mount_setattr", want: errPerm},
	{name: "setns", calls: "setns", want: errPerm},
	{name: "clone3", calls: "clone3", want: errNoSys},
	{name: "processes", calls: "process_vm_readv process_vm_writev pidfd_getfd migrate_pages move_pages", want: errPerm},
	{name: "pidfd", calls: "pidfd_open pidfd_send_signal kill tgkill waitid", want: Allow},
	{name: "handle to name", calls: "name_to_handle_at", want: errNoSupp},
	{name: "handles and quota", calls: "open_by_handle_at quotactl quotactl_fd file_setattr", want: errPerm},
	{name: "attributes", calls: "file_getattr setxattr getxattr setxattrat getxattrat listxattrat removexattrat", want: Allow},
	{name: "keys", calls: "add_key request_key keyctl", want: errPerm},
	{name: "modules", calls: "init_module finit_module delete_module create_module get_kernel_syms query_module kexec_load kexec_file_load", want: errPerm},
	{name: "machine", calls: "reboot swapon swapoff acct syslog iopl ioperm vhangup perf_event_open ustat sysfs", want: errPerm},
	{name: "clock and names", calls: "settimeofday clock_settime sethostname setdomainname", want: errPerm},
	{name: "clock, judged by the kernel", calls: "adjtimex clock_adjtime clock_gettime", want: Allow},
	{name: "sandboxing of one's own", calls: "landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp", want: Allow},
	{name: "memory", calls: "memfd_create mseal map_shadow_stack cachestat membarrier set_mempolicy_home_node mbind", want: Allow},
	{name: "files", calls: "splice vmsplice close_range openat openat2 read write", want: Allow},
	{name: "threads", calls: "futex futex_waitv futex_wake futex_wait futex_requeue rseq execve execveat vfork fork", want: Allow},
}

// byArgument are rows in which one argument decides, on every variant.
var byArgument = []row{
	{name: "nothing", calls: "unshare", args: a(0), want: Allow},
	{name: "CLONE_FS", calls: "unshare", args: a(0x200), want: Allow},
	{name: "CLONE_FILES", calls: "unshare", args: a(0x400), want: Allow},
	{name: "CLONE_SYSVSEM", calls: "unshare", args: a(0x40000), want: Allow},
	{name: "all three", calls: "unshare", args: a(0x40600), want: Allow},
	{name: "NEWUSER", calls: "unshare", args: a(0x10000000), want: errPerm},
	{name: "NEWUSER with FS", calls: "unshare", args: a(0x10000200), want: errPerm},
	{name: "NEWTIME", calls: "unshare", args: a(0x80), want: errPerm},
	{name: "CLONE_VM", calls: "unshare", args: a(0x100), want: errPerm},

	{name: "fork", calls: "clone", args: a(0x01200011), want: Allow},
	{name: "thread", calls: "clone", args: a(0x003d0f00), want: Allow},
	{name: "0x80 is CSIGNAL", calls: "clone", args: a(0x80), want: Allow},
	{name: "NEWNS", calls: "clone", args: a(0x00020011), want: errPerm},
	{name: "NEWCGROUP", calls: "clone", args: a(0x02000011), want: errPerm},
	{name: "NEWUTS", calls: "clone", args: a(0x04000011), want: errPerm},
	{name: "NEWIPC", calls: "clone", args: a(0x08000011), want: errPerm},
	{name: "NEWUSER", calls: "clone", args: a(0x10000011), want: errPerm},
	{name: "NEWPID", calls: "clone", args: a(0x20000011), want: errPerm},
	{name: "NEWNET", calls: "clone", args: a(0x40000011), want: errPerm},

	{name: "character device", calls: "mknod", args: a(0, 0x21b6), want: errPerm},
	{name: "block device", calls: "mknod", args: a(0, 0x61b6), want: errPerm},
	{name: "device, bits above a mode", calls: "mknod", args: a(0, 0xf21b6), want: errPerm},
	{name: "FIFO", calls: "mknod", args: a(0, 0x11b6), want: Allow},
	{name: "socket", calls: "mknod", args: a(0, 0xc1b6), want: Allow},
	{name: "regular", calls: "mknod", args: a(0, 0x81b6), want: Allow},
	{name: "no type", calls: "mknod", args: a(0, 0x1b6), want: Allow},
	{name: "character device", calls: "mknodat", args: a(0x2000, 0x6000, 0x21b6), want: errPerm},
	{name: "block device", calls: "mknodat", args: a(0, 0, 0x6000), want: errPerm},
	{name: "FIFO", calls: "mknodat", args: a(0x2000, 0x6000, 0x1000), want: Allow},

	{name: "PER_LINUX", calls: "personality", args: a(0), want: Allow},
	{name: "PER_LINUX32", calls: "personality", args: a(8), want: Allow},
	{name: "UNAME26", calls: "personality", args: a(0x20000), want: Allow},
	{name: "both", calls: "personality", args: a(0x20008), want: Allow},
	{name: "query", calls: "personality", args: a(0xffffffff), want: Allow},
	{name: "READ_IMPLIES_EXEC", calls: "personality", args: a(0x400000), want: errPerm},
	{name: "no randomisation, and more", calls: "personality", args: a(0x440000), want: errPerm},
	{name: "PER_BSD", calls: "personality", args: a(6), want: errPerm},

	{name: "SET_MM", calls: "prctl", args: a(35), want: errPerm},
	{name: "SET_IO_FLUSHER", calls: "prctl", args: a(57), want: errPerm},
	{name: "SET_MEMORY_MERGE", calls: "prctl", args: a(67), want: errPerm},
	{name: "SET_PDEATHSIG", calls: "prctl", args: a(1), want: Allow},
	{name: "SET_SECCOMP", calls: "prctl", args: a(22), want: Allow},
	{name: "SET_NO_NEW_PRIVS", calls: "prctl", args: a(38), want: Allow},
	{name: "SET_SYSCALL_USER_DISPATCH", calls: "prctl", args: a(59), want: Allow},
	{name: "SET_VMA", calls: "prctl", args: a(0x53564d41), want: Allow},
	{name: "SET_PTRACER", calls: "prctl", args: a(0x59616d61), want: Allow},

	{name: "FSSETXATTR", calls: "ioctl", args: a(3, 0x401c5820), want: errPerm},
	{name: "SETFLAGS", calls: "ioctl", args: a(3, 0x40086602), want: errPerm},
	{name: "SETFLAGS 32", calls: "ioctl", args: a(3, 0x40046602), want: errPerm},
	{name: "TIOCSTI", calls: "ioctl", args: a(0, 0x5412), want: errPerm},
	{name: "TIOCLINUX", calls: "ioctl", args: a(0, 0x541c), want: errPerm},
	{name: "TIOCSETD", calls: "ioctl", args: a(0, 0x5423), want: errPerm},
	{name: "TIOCCONS", calls: "ioctl", args: a(0, 0x541d), want: errPerm},
	{name: "TCGETS", calls: "ioctl", args: a(0, 0x5401), want: Allow},
	{name: "TIOCGWINSZ", calls: "ioctl", args: a(0, 0x5413), want: Allow},
	{name: "FSGETXATTR", calls: "ioctl", args: a(3, 0x801c581f), want: Allow},
	{name: "request in the wrong place", calls: "ioctl", args: a(0x5412, 0, 0x5412), want: Allow},

	{name: "unix stream", calls: "socketpair", args: a(1, 1, 0), want: Allow},
	{name: "unix seqpacket", calls: "socketpair", args: a(1, 5, 0), want: Allow},
	{name: "unix raw", calls: "socketpair", args: a(1, 3, 0), want: errPerm},
	{name: "unix with a protocol", calls: "socketpair", args: a(1, 1, 1), want: errNoProto},
	{name: "tipc", calls: "socketpair", args: a(30, 1, 0), want: errNoFamily},
	{name: "inet", calls: "socketpair", args: a(2, 1, 0), want: errNoFamily},

	{name: "level 0, RECVTTL", calls: "setsockopt", args: a(3, 0, 12), want: Allow},
	{name: "IP_ORIGDSTADDR", calls: "setsockopt", args: a(3, 0, 20), want: Allow},
	{name: "RECVTCLASS", calls: "setsockopt", args: a(3, 41, 66), want: Allow},
	{name: "TCLASS", calls: "setsockopt", args: a(3, 41, 67), want: Allow},
	{name: "V6ONLY", calls: "setsockopt", args: a(3, 41, 26), want: Allow},
	{name: "level 1, 35", calls: "setsockopt", args: a(3, 1, 35), want: Allow},
	{name: "ATTACH_FILTER", calls: "setsockopt", args: a(3, 1, 26), want: Allow},
	{name: "ATTACH_BPF", calls: "setsockopt", args: a(3, 1, 50), want: errNoOpt},
	{name: "REUSEPORT_EBPF", calls: "setsockopt", args: a(3, 1, 52), want: errNoOpt},
	{name: "REUSEPORT_CBPF", calls: "setsockopt", args: a(3, 1, 51), want: Allow},
	{name: "NODELAY", calls: "setsockopt", args: a(3, 6, 1), want: Allow},
	{name: "ULP", calls: "setsockopt", args: a(3, 6, 31), want: errNoEnt},
	{name: "REPAIR", calls: "setsockopt", args: a(3, 6, 19), want: errNoOpt},
	{name: "ULP of level 1", calls: "setsockopt", args: a(3, 1, 31), want: Allow},
}

// byPolicy are rows that differ between the variants.
var byPolicy = []row{
	{"denied", strict, "ptrace", a(16), errPerm},
	{"allowed", agent, "ptrace", a(16), Allow},
	{"no randomisation", strict, "personality", a(0x40000), errPerm},
	{"no randomisation", agent, "personality", a(0x40000), Allow},
	{"one is not the other", Policy{AllowPtrace: true}, "personality", a(0x40000), errPerm},
	{"one is not the other", Policy{AllowNoRandomize: true}, "ptrace", a(16), errPerm},
	{"no listening", strict, "bind listen accept accept4", a(3), errPerm},
	{"no listening", client, "bind listen accept accept4", a(3), errPerm},
	{"listening", agent, "bind listen accept accept4", a(3), Allow},

	{"seed: no socket at all", strict, "socket connect", a(2, 1, 6), errPerm},
	{"seed: not unix", strict, "socket", a(1, 1, 0), errPerm},
	{"seed: not netlink", strict, "socket", a(16, 3, 0), errPerm},
	{"seed: not packet", strict, "socket", a(17, 3, 0), errPerm},
	{"connect", client, "connect", a(3), Allow},

	{"tcp", client, "socket", a(2, 1, 6), Allow},
	{"tcp, flags", client, "socket", a(2, 0x80801, 0), Allow},
	{"tcp6", client, "socket", a(10, 1, 0), Allow},
	{"mptcp", client, "socket", a(2, 1, 262), Allow},
	{"udp", client, "socket", a(2, 2, 17), Allow},
	{"udp6", client, "socket", a(10, 2, 0), Allow},
	{"route", client, "socket", a(16, 3, 0), Allow},
	{"route dgram, flags", client, "socket", a(16, 0x80002, 0), Allow},
	{"unix of a client", client, "socket", a(1, 1, 0), errNoFamily},
	{"inet packet", client, "socket", a(2, 10, 3), errPerm},
	{"inet packet, flags", client, "socket", a(2, 0x8080a, 0x300), errPerm},
	{"inet raw", client, "socket", a(2, 3, 1), errPerm},
	{"inet6 raw", client, "socket", a(10, 3, 58), errPerm},
	{"ping", client, "socket", a(2, 2, 1), errNoProto},
	{"smc", client, "socket", a(2, 1, 256), errNoProto},
	{"sctp", client, "socket", a(2, 1, 132), errNoProto},
	{"sctp seqpacket", client, "socket", a(2, 5, 132), errNoProto},
	{"l2tp", client, "socket", a(2, 2, 115), errNoProto},
	{"udplite", client, "socket", a(2, 2, 136), errNoProto},
	{"dccp", client, "socket", a(2, 6, 33), errNoProto},
	{"tcp over dgram", client, "socket", a(2, 2, 6), errNoProto},
	{"audit", client, "socket", a(16, 3, 9), errNoProto},
	{"netfilter", client, "socket", a(16, 3, 12), errNoProto},
	{"netlink stream", client, "socket", a(16, 1, 0), errNoProto},
	{"family 0", client, "socket", a(0, 1, 0), errNoFamily},
	{"packet", client, "socket", a(17, 3, 0x300), errNoFamily},
	{"smc family", client, "socket", a(43, 1, 0), errNoFamily},
	{"vsock", client, "socket", a(40, 1, 0), errNoFamily},
	{"alg", client, "socket", a(38, 5, 0), errNoFamily},
	{"alg", agent, "socket", a(38, 5, 0), errNoFamily},
	{"bluetooth", agent, "socket", a(31, 3, 1), errNoFamily},
	{"newest and beyond", agent, "socket", a(46, 1, 0), errNoFamily},
	{"negative", agent, "socket", a(0xffffffff, 1, 0), errNoFamily},
	{"dgram sends to any name", strict, "socketpair", a(1, 0x80802, 0), errPerm},
	{"dgram sends to any name", client, "socketpair", a(1, 2, 0), errPerm},
	{"dgram, flags", agent, "socketpair", a(1, 0x80802, 0), Allow},
	{"unix", agent, "socket", a(1, 1, 0), Allow},
	{"unix dgram", agent, "socket", a(1, 2, 0), Allow},
	{"unix seqpacket", agent, "socket", a(1, 5, 0), Allow},
	{"unix raw", agent, "socket", a(1, 3, 0), errPerm},
	{"unix with a protocol", agent, "socket", a(1, 1, 1), errNoProto},
	{"unix only", Policy{Network: NetworkUnix}, "socket", a(1, 1, 0), Allow},
	{"inet of unix only", Policy{Network: NetworkUnix}, "socket", a(2, 1, 0), errNoFamily},
	{"route of unix only", Policy{Network: NetworkUnix}, "socket", a(16, 3, 0), Allow},
}

// rows is all of them, with those that hold everywhere spread out.
func rows() []row {
	all := slices.Clone(byPolicy)
	everywhere := slices.Concat(always, byArgument)
	for level, options := range map[uint64][]uint64{
		0:  {35, 39, 42, 43, 44, 45, 46, 47, 48, 64, 65, 96, 97, 128, 129},
		41: {20, 27, 42, 43, 44, 45, 46, 47, 48, 64, 65},
	} {
		for _, option := range options {
			name := fmt.Sprintf("level %d option %d", level, option)
			everywhere = append(everywhere, row{name: name, calls: "setsockopt", args: a(3, level, option), want: errNoOpt})
		}
	}
	for _, r := range everywhere {
		for _, p := range []Policy{strict, client, agent} {
			r.policy = p
			all = append(all, r)
		}
	}
	return all
}

// wide are the calls of which the kernel reads an argument whole, so that the
// upper half counts: a bit there is never one of those that are allowed.
var wide = map[string]bool{"unshare": true}

// TestRows tries every row of the specification on both architectures, and
// again with each of several bits set in the upper halves, which the kernel
// cuts off before it looks.
//
// Proves: S-106, G-02.
func TestRows(t *testing.T) {
	machines := map[Policy]machine{}
	for _, arch := range []Arch{AMD64, ARM64} {
		for _, r := range rows() {
			r.policy.Arch = arch
			m, ok := machines[r.policy]
			if !ok {
				m = newMachine(t, build(t, r.policy).Instructions())
				machines[r.policy] = m
			}
			for name := range strings.FieldsSeq(r.calls) {
				nr := slices.Index(arch.names(), name)
				if nr < 0 {
					continue // TestNames says which
				}
				checkRow(t, m, r, name, uint32(nr))
			}
		}
	}
}

func checkRow(t *testing.T, m machine, r row, name string, nr uint32) {
	t.Helper()
	for _, above := range []uint64{0, 1 << 32, 1 << 63, 0xffffffff << 32} {
		c := call{arch: archTokens[r.policy.Arch], nr: nr, args: r.args}
		for i := range c.args {
			c.args[i] |= above
		}
		want := r.want
		if wide[name] && above != 0 {
			want = errPerm
		}
		if got := m.verdict(t, c); got != want {
			t.Errorf("%v: %s(%#x) (%s): got %v, want %v", r.policy, name, c.args[:3], r.name, got, want)
		}
	}
}

// TestForeign: another architecture is killed whatever it calls, and a number
// that no call of this one has is ENOSYS: those of x32, those that are newer,
// and the one that a tracer sets to skip a call.
//
// Proves: G-21, G-02, S-107.
func TestForeign(t *testing.T) {
	const i386, arm, riscv = 0x40000003, 0x40000028, 0xc00000f3
	for _, p := range variants() {
		m := newMachine(t, build(t, p).Instructions())
		foreign := []uint32{i386, arm, riscv, 0, ^uint32(0), archTokens[p.Arch] ^ 1<<31, archTokens[AMD64+ARM64-p.Arch]}
		for _, token := range foreign {
			for _, nr := range []uint32{0, 20, 39, 172, 470, 471, 1 << 30, ^uint32(0)} {
				if got := m.verdict(t, call{arch: token, nr: nr}); got != KillProcess {
					t.Errorf("%v: call %d of architecture %#x: got %v, want %v", p, nr, token, got, KillProcess)
				}
			}
		}
		for _, nr := range []uint32{471, 472, 511, 512, 547, 0xffff, 1 << 30, 1<<30 | 39, 1<<30 | 520, 1 << 31, ^uint32(0)} {
			if got := m.verdict(t, call{arch: archTokens[p.Arch], nr: nr}); got != errNoSys {
				t.Errorf("%v: call %#x: got %v, want %v", p, nr, got, errNoSys)
			}
		}
	}
}

// TestTwoRules: a second row for a call is found where both count, and only
// there, as the two rows for socket do.
func TestTwoRules(t *testing.T) {
	table := []rule{{calls: "mount umount2", verdict: errPerm}, {calls: "umount2", given: inet, verdict: errNoSys}}
	if got, err := (Policy{Arch: AMD64}).decisions(table); err != nil {
		t.Errorf("got %v, %v; want no error where only one row counts", got, err)
	}
	if got, err := (Policy{Arch: AMD64, Network: NetworkInet}).decisions(table); err == nil {
		t.Errorf("got %v; want an error where both rows count", got)
	}
}
