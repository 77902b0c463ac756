//go:build kernel

package seccomp_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/hardening/seccomp"
)

// The variants that calls are tried under.
var (
	strict = seccomp.Policy{}
	client = seccomp.Policy{Network: seccomp.NetworkInet}
	agent  = seccomp.Policy{
		Network: seccomp.NetworkInetUnix, Listen: seccomp.ListenLoopback, AllowPtrace: true, AllowNoRandomize: true,
	}
)

// page stands for the address of readable memory of zeroes.
const page = ^uint64(0)

// try is a call that a victim makes. Arguments are such that the call does no
// harm where it is let through, since it is also made without a filter.
type try struct {
	name string
	i386 bool
	nr   uint32
	args []uint64
	want string
	// natively the kernel may refuse with the same error, as when the facility
	// is not built in, so that an equal answer without the filter proves nothing.
	natively bool
}

func (c try) line() string {
	how := "64"
	if c.i386 {
		how = "32"
	}
	words := make([]string, 6)
	for i := range words {
		words[i] = "0"
		if i < len(c.args) {
			words[i] = fmt.Sprintf("%x", c.args[i])
			if c.args[i] == page {
				words[i] = "p"
			}
		}
	}
	return fmt.Sprintf("%s %x %s\n", how, c.nr, strings.Join(words, " "))
}

const (
	ok     = "0"
	perm   = "1"
	noEnt  = "2"
	noSys  = "38"
	noOpt  = "92"
	noProt = "93"
	noSupp = "95"
	noFam  = "97"

	killed = "signal 31"

	above = 1 << 32
)

// denied are tried under client; what they answer without a filter differs.
var denied = []try{
	{name: "io_uring_setup", nr: unix.SYS_IO_URING_SETUP, want: noSys},
	{name: "userfaultfd", nr: unix.SYS_USERFAULTFD, args: []uint64{1}, want: noSys},
	{name: "listns", nr: unix.SYS_LISTNS, want: noSys, natively: true},
	{name: "bpf", nr: unix.SYS_BPF, want: perm},
	{name: "kcmp", nr: unix.SYS_KCMP, want: perm},
	{name: "mount", nr: unix.SYS_MOUNT, want: perm},
	{name: "umount2", nr: unix.SYS_UMOUNT2, want: perm},
	{name: "open_tree", nr: unix.SYS_OPEN_TREE, want: perm},
	{name: "open_tree_attr", nr: unix.SYS_OPEN_TREE_ATTR, want: perm},
	{name: "fsopen", nr: unix.SYS_FSOPEN, want: perm},
	{name: "chroot", nr: unix.SYS_CHROOT, want: perm},
	{name: "pivot_root", nr: unix.SYS_PIVOT_ROOT, want: perm},
	{name: "unshare user", nr: unix.SYS_UNSHARE, args: []uint64{unix.CLONE_NEWUSER}, want: perm},
	{name: "unshare mount", nr: unix.SYS_UNSHARE, args: []uint64{unix.CLONE_NEWNS}, want: perm},
	{name: "unshare files, a bit above", nr: unix.SYS_UNSHARE, args: []uint64{above | unix.CLONE_FILES}, want: perm},
	{name: "setns", nr: unix.SYS_SETNS, want: perm},
	{name: "clone user", nr: unix.SYS_CLONE, args: []uint64{unix.CLONE_NEWUSER | 17}, want: perm},
	{name: "clone pid, a bit above", nr: unix.SYS_CLONE, args: []uint64{above | unix.CLONE_NEWPID | 17}, want: perm},
	{name: "clone3", nr: unix.SYS_CLONE3, want: noSys},
	{name: "process_vm_readv", nr: unix.SYS_PROCESS_VM_READV, want: perm},
	{name: "pidfd_getfd", nr: unix.SYS_PIDFD_GETFD, want: perm},
	{name: "ptrace", nr: unix.SYS_PTRACE, want: perm},
	{name: "name_to_handle_at", nr: unix.SYS_NAME_TO_HANDLE_AT, want: noSupp},
	{name: "open_by_handle_at", nr: unix.SYS_OPEN_BY_HANDLE_AT, want: perm},
	{name: "file_setattr", nr: unix.SYS_FILE_SETATTR, want: perm},
	{name: "quotactl", nr: unix.SYS_QUOTACTL, want: perm},
	{name: "keyctl", nr: unix.SYS_KEYCTL, want: perm},
	{name: "add_key", nr: unix.SYS_ADD_KEY, want: perm},
	{name: "init_module", nr: unix.SYS_INIT_MODULE, want: perm, natively: true},
	{name: "reboot", nr: unix.SYS_REBOOT, want: perm},
	{name: "settimeofday", nr: unix.SYS_SETTIMEOFDAY, want: perm},
	{name: "sethostname", nr: unix.SYS_SETHOSTNAME, args: []uint64{0, 1 << 20}, want: perm},
	{name: "perf_event_open", nr: unix.SYS_PERF_EVENT_OPEN, want: perm},
	{name: "mknodat, block device", nr: unix.SYS_MKNODAT, args: []uint64{0, 0, 0x6000}, want: perm},
	{name: "mknodat, bits above", nr: unix.SYS_MKNODAT, args: []uint64{0, 0, above | 0xf2000}, want: perm},
	{name: "personality", nr: unix.SYS_PERSONALITY, args: []uint64{0x40000}, want: perm},
	{name: "prctl SET_MEMORY_MERGE", nr: unix.SYS_PRCTL, args: []uint64{unix.PR_SET_MEMORY_MERGE}, want: perm},
	{name: "prctl SET_MEMORY_MERGE, a bit above", nr: unix.SYS_PRCTL, args: []uint64{above | unix.PR_SET_MEMORY_MERGE}, want: perm},
	{name: "TIOCSTI", nr: unix.SYS_IOCTL, args: []uint64{0, unix.TIOCSTI, page}, want: perm},
	{name: "TIOCSTI, a bit above", nr: unix.SYS_IOCTL, args: []uint64{0, above | unix.TIOCSTI, page}, want: perm},
	{name: "TIOCSETD", nr: unix.SYS_IOCTL, args: []uint64{0, unix.TIOCSETD, page}, want: perm},
	{name: "FSSETXATTR", nr: unix.SYS_IOCTL, args: []uint64{0, 0x401c5820, 0}, want: perm},
	{name: "unix", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_UNIX, 1}, want: noFam},
	{name: "packet", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_PACKET, 3}, want: noFam, natively: true},
	{name: "vsock", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_VSOCK, 1}, want: noFam, natively: true},
	{name: "alg", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_ALG, 5}, want: noFam, natively: true},
	{name: "inet packet", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_INET, unix.SOCK_PACKET, 0x300}, want: perm, natively: true},
	{name: "inet raw", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_INET, unix.SOCK_RAW, 1}, want: perm},
	{name: "inet raw, bits above", nr: unix.SYS_SOCKET, args: []uint64{above | unix.AF_INET, above | unix.SOCK_RAW, 1}, want: perm},
	{name: "smc", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_INET, 1, 256}, want: noProt, natively: true},
	{name: "sctp", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_INET, 1, 132}, want: noProt, natively: true},
	{name: "netlink audit", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_NETLINK, 3, 9}, want: noProt, natively: true},
	{name: "netlink uevent", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_NETLINK, 3, 15}, want: noProt},
	{name: "multicast join", nr: unix.SYS_SETSOCKOPT, args: []uint64{0, 0, 35}, want: noOpt},
	{name: "multicast join, bits above", nr: unix.SYS_SETSOCKOPT, args: []uint64{0, above, above | 42}, want: noOpt},
	{name: "ULP", nr: unix.SYS_SETSOCKOPT, args: []uint64{0, 6, 31}, want: noEnt},
	{name: "bind", nr: unix.SYS_BIND, want: perm},
	{name: "accept4", nr: unix.SYS_ACCEPT4, want: perm},
	{name: "newer than known", nr: 471, want: noSys, natively: true},
}

// foreign are of amd64: the other two tables that its kernel may have.
var foreign = []try{
	{name: "getpid of i386", i386: true, nr: 20, want: killed},
	{name: "mount of i386", i386: true, nr: 21, want: killed},
	{name: "getpid of x32", nr: 1<<30 | 39, want: noSys, natively: true},
	{name: "modify_ldt", nr: 154, want: noSys},
	{name: "iopl", nr: 172, want: perm},
}

// strictly is what the seed's own profile denies besides.
var strictly = []try{
	{name: "inet", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_INET, 1}, want: perm},
	{name: "inet, bits above", nr: unix.SYS_SOCKET, args: []uint64{above | unix.AF_INET, above | 1}, want: perm},
	{name: "netlink route", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_NETLINK, 3}, want: perm},
	{name: "connect", nr: unix.SYS_CONNECT, want: perm},
}

// left are calls that must answer as without a filter, which is what want says.
var left = []try{
	{name: "getppid", nr: unix.SYS_GETPPID, want: ok},
	{name: "unshare files", nr: unix.SYS_UNSHARE, args: []uint64{unix.CLONE_FILES}, want: ok},
	{name: "clone, a child", nr: unix.SYS_CLONE, args: []uint64{17}, want: ok},
	{name: "personality, asking", nr: unix.SYS_PERSONALITY, args: []uint64{0xffffffff}, want: ok},
	{name: "memfd_create", nr: unix.SYS_MEMFD_CREATE, args: []uint64{page}, want: ok},
	{name: "pidfd_open", nr: unix.SYS_PIDFD_OPEN, args: []uint64{1}, want: ok},
	{name: "socketpair", nr: unix.SYS_SOCKETPAIR, args: []uint64{unix.AF_UNIX, 1, 0, page}, want: ok},
	{name: "prctl SET_DUMPABLE", nr: unix.SYS_PRCTL, args: []uint64{unix.PR_SET_DUMPABLE, 1}, want: ok},
	{name: "TIOCINQ of a pipe", nr: unix.SYS_IOCTL, args: []uint64{0, unix.TIOCINQ, page}, want: ok},
	{name: "close_range", nr: unix.SYS_CLOSE_RANGE, args: []uint64{1000, 1001}, want: ok},
}

// opened is what a policy opens, beside left.
var opened = map[seccomp.Policy][]try{
	strict: nil,
	client: {
		{name: "tcp", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 6}, want: ok},
		{name: "tcp, bits above", nr: unix.SYS_SOCKET, args: []uint64{above | unix.AF_INET, above | 1, above}, want: ok},
		{name: "udp6", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_INET6, unix.SOCK_DGRAM, 17}, want: ok},
		{name: "netlink route", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_NETLINK, 3}, want: ok},
	},
	agent: {
		{name: "unix", nr: unix.SYS_SOCKET, args: []uint64{unix.AF_UNIX, 1}, want: ok},
		{name: "ptrace", nr: unix.SYS_PTRACE, want: ok}, // PTRACE_TRACEME
		{name: "personality, no randomisation", nr: unix.SYS_PERSONALITY, args: []uint64{0x40000}, want: ok},
		{name: "bind", nr: unix.SYS_BIND, want: "88"}, // ENOTSOCK
	},
}

// TestKernel loads the filter for real and asks the kernel what it thinks of
// each call, with and without.
//
// Proves: S-106, G-02, G-21.
func TestKernel(t *testing.T) {
	v := compile(t)
	tries := denied
	if runtime.GOARCH == "amd64" {
		tries = append(tries, foreign...)
	}
	t.Run("denied", func(t *testing.T) { v.checkDenied(t, client, tries) })
	t.Run("denied in none", func(t *testing.T) { v.checkDenied(t, strict, strictly) })
	for p, more := range opened {
		t.Run("left of "+p.Network.String(), func(t *testing.T) { v.checkLeft(t, p, append(more, left...)) })
	}
}

func (v victim) checkDenied(t *testing.T, p seccomp.Policy, tries []try) {
	with, without := v.attempt(t, v.filter(t, p), tries), v.attempt(t, "-", tries)
	for i, c := range tries {
		t.Logf("%-28s with %-10s without %s", c.name, with[i], without[i])
		if with[i] != c.want {
			t.Errorf("%s: got %s, want %s", c.name, with[i], c.want)
		}
		if without[i] == c.want && !c.natively {
			t.Errorf("%s: answers %s without a filter, too, so this proves nothing", c.name, without[i])
		}
	}
}

func (v victim) checkLeft(t *testing.T, p seccomp.Policy, tries []try) {
	with, without := v.attempt(t, v.filter(t, p), tries), v.attempt(t, "-", tries)
	for i, c := range tries {
		if with[i] != c.want || without[i] != c.want {
			t.Errorf("%s: got %s, without a filter %s, want %s", c.name, with[i], without[i], c.want)
		}
	}
}

// TestPrograms: a shell and a Go program with its threads work under the
// strictest filter.
func TestPrograms(t *testing.T) {
	v := compile(t)
	filter := v.filter(t, strict)
	out := v.run(t, "", filter, "/bin/sh", "-c", "echo a b | wc -w; exit 0")
	if got := strings.TrimSpace(out); got != "2" {
		t.Errorf("the shell printed %q, want 2", got)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out = v.run(t, "", filter, self, "-test.run=^TestThreads$", "-test.v")
	if !strings.Contains(out, "--- PASS: TestThreads") {
		t.Errorf("under the filter, TestThreads says:\n%s", out)
	}
}

// TestThreads makes the runtime start threads and a process; TestPrograms runs
// it again under the filter.
func TestThreads(t *testing.T) {
	done := make(chan int)
	for range 8 {
		go func() {
			runtime.LockOSThread()
			time.Sleep(time.Millisecond)
			done <- unix.Gettid()
		}()
	}
	seen := map[int]bool{}
	for range 8 {
		seen[<-done] = true
	}
	if len(seen) != 8 {
		t.Errorf("got %d threads, want 8", len(seen))
	}
	if out, err := exec.CommandContext(t.Context(), "echo", "hello").Output(); err != nil || string(out) != "hello\n" {
		t.Errorf("echo: got %q, %v", out, err)
	}
}

// victim is the program that is filtered. It is not Go: a filter loaded in a
// Go process would hold for some of its threads, and an i386 call needs C.
type victim struct{ binary string }

func compile(t *testing.T) victim {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this ring needs root: without it the kernel denies much of this itself")
	}
	binary := filepath.Join(t.TempDir(), "victim")
	cmd := exec.CommandContext(t.Context(), "cc", "-O1", "-Wall", "-Werror", "-o", binary, "testdata/victim.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return victim{binary}
}

// filter writes the program for this machine to a file.
func (v victim) filter(t *testing.T, p seccomp.Policy) string {
	t.Helper()
	arch, err := seccomp.ParseArch(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	p.Arch = arch
	prog, err := seccomp.Build(p)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "filter")
	if err := os.WriteFile(name, prog.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func (v victim) attempt(t *testing.T, filter string, tries []try) []string {
	t.Helper()
	var in strings.Builder
	for _, c := range tries {
		in.WriteString(c.line())
	}
	answers := strings.Split(strings.TrimSpace(v.run(t, in.String(), filter)), "\n")
	if len(answers) != len(tries) {
		t.Fatalf("got %d answers to %d calls: %q", len(answers), len(tries), answers)
	}
	return answers
}

func (v victim) run(t *testing.T, in string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), v.binary, args...)
	cmd.Stdin = strings.NewReader(in)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("victim: %v\n%s%s", err, out, stderr.String())
	}
	return string(out)
}
