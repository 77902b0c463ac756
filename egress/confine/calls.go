package confine

import "golang.org/x/sys/unix"

// goRuntime is what the Go runtime needs to go on: memory, its threads' sleep
// and wake, signals, the time where the vDSO has none. Found by strace of both
// programs under load, and by reading runtime/sys_linux_*.s of Go 1.26.
var goRuntime = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_PREAD64,
	unix.SYS_MUNMAP, unix.SYS_MADVISE,
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_SCHED_YIELD,
	unix.SYS_RESTART_SYSCALL, // a sleep that SIGSTOP and SIGCONT broke
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
	unix.SYS_GETRANDOM, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
	unix.SYS_FCNTL, unix.SYS_GETRLIMIT,
}

// relaying is for sockets that are there already, or that come in.
var relaying = []uint32{
	unix.SYS_ACCEPT4, unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG,
	unix.SYS_SHUTDOWN, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT,
}

// dialing is the proxy's besides: to connect, to move bytes inside the kernel,
// and to write its two audit files in turn.
var dialing = []uint32{
	unix.SYS_CONNECT, unix.SYS_SPLICE, unix.SYS_PIPE2,
	unix.SYS_READV, unix.SYS_WRITEV,
	unix.SYS_FTRUNCATE, unix.SYS_PWRITE64, unix.SYS_LSEEK, unix.SYS_FSTAT,
}

// internet is the only kind of socket that the proxy makes: no raw or packet
// sockets, no netlink, no AF_UNIX, and of the protocols TCP and UDP alone.
var internet = call{unix.SYS_SOCKET, []test{
	{0, anyBits, []uint32{unix.AF_INET, unix.AF_INET6}},
	{1, 0xf, []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM}}, // without SOCK_CLOEXEC and SOCK_NONBLOCK
	{2, anyBits, []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP}},
}}

// guarded calls are the runtime's too, each in the one form in which it uses it.
func guarded(pid uint32) []call {
	return []call{
		// A thread, never a process, and in no new namespace (CLONE_NEW*: bits 25
		// to 30 and 17, of which CLONE_NEWTIME lies in the signal's byte).
		{unix.SYS_CLONE, []test{{0, unix.CLONE_THREAD | unix.CLONE_VM | 0x7e020080, []uint32{unix.CLONE_THREAD | unix.CLONE_VM}}}},
		// Memory, never code.
		{unix.SYS_MMAP, []test{{2, unix.PROT_EXEC, []uint32{0}}}},
		// Signals to itself alone: to preempt a thread, and to die of one.
		{unix.SYS_TGKILL, []test{{0, anyBits, []uint32{pid}}}},
		// To ask for its own limits, and not to set any.
		{unix.SYS_PRLIMIT64, []test{{0, anyBits, []uint32{0}}, {2, anyBits, []uint32{0}}}},
		// The names that Go gives its memory.
		{unix.SYS_PRCTL, []test{{0, anyBits, []uint32{unix.PR_SET_VMA}}}},
	}
}
