//go:build kernel

package policy

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
	"github.com/sage-sandbox/sage/integration/victim/expect"
)

// inheritance is a descriptor that whoever starts the runtime leaves open.
type inheritance struct {
	name string
	open func(*testing.T) *os.File
	// says is a phrase of the refusal, "" where it may be passed on.
	says string
}

// wantsPipe is in every refusal.
const wantsPipe = "want a pipe"

var inheritances = []inheritance{
	{"null device", func(t *testing.T) *os.File { return opened(t, "/dev/null", os.O_RDWR) }, ""},
	{"file", func(t *testing.T) *os.File {
		return opened(t, filepath.Join(harness.TempDir(t), "f"), os.O_CREATE|os.O_RDWR)
	}, ""},
	{"pipe", pipeEnd, ""},
	{"unnamed pair", func(t *testing.T) *os.File { return pairEnd(t, unix.SOCK_STREAM) }, ""},
	{"unnamed sequence pair", func(t *testing.T) *os.File { return pairEnd(t, unix.SOCK_SEQPACKET) }, ""},
	{"directory", func(t *testing.T) *os.File { return opened(t, "/etc", os.O_RDONLY) }, wantsPipe},
	{"path of a directory", func(t *testing.T) *os.File { return opened(t, "/", unix.O_PATH|os.O_RDONLY) }, wantsPipe},
	{"tcp listener", func(t *testing.T) *os.File { return socketFile(t, listening(t)) }, wantsPipe},
	{"tcp connection", tcpConnection, wantsPipe},
	{"udp", func(t *testing.T) *os.File { return rawSocket(t, unix.AF_INET, unix.SOCK_DGRAM, 0) }, wantsPipe},
	{"packet", func(t *testing.T) *os.File { return rawSocket(t, unix.AF_PACKET, unix.SOCK_RAW, 0x300) }, wantsPipe},
	{"netlink", func(t *testing.T) *os.File { return rawSocket(t, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE) }, wantsPipe},
	{"vsock", func(t *testing.T) *os.File { return rawSocket(t, unix.AF_VSOCK, unix.SOCK_STREAM, 0) }, wantsPipe},
	{"unix listener", func(t *testing.T) *os.File { return socketFile(t, unixListener(t)) }, wantsPipe},
	{"unix connection to a name", unixConnection, wantsPipe},
	{"unix that is not connected", func(t *testing.T) *os.File { return rawSocket(t, unix.AF_UNIX, unix.SOCK_STREAM, 0) }, wantsPipe},
	{"unnamed datagram pair", func(t *testing.T) *os.File { return pairEnd(t, unix.SOCK_DGRAM) }, wantsPipe},
}

// kernelFiles are descriptors by which a program steers the host's kernel,
// whatever the container's own mounts and devices are.
var kernelFiles = []inheritance{
	{"device", func(t *testing.T) *os.File { return opened(t, "/dev/kmsg", os.O_WRONLY) }, wantsPipe},
	{"block device", func(t *testing.T) *os.File { return opened(t, "/dev/loop0", os.O_RDONLY) }, wantsPipe},
	{"file of proc", func(t *testing.T) *os.File { return opened(t, "/proc/sys/kernel/core_pattern", os.O_RDONLY) }, wantsPipe},
	{"file of a cgroup", hostCgroupFile, wantsPipe},
	{"file of sys", func(t *testing.T) *os.File { return opened(t, "/sys/kernel/profiling", os.O_RDONLY) }, wantsPipe},
	{"anonymous inode", anonymous, wantsPipe},
}

// hostCgroupFile is where a process leaves its limits by writing its number.
func hostCgroupFile(t *testing.T) *os.File {
	t.Helper()
	files, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	check(t, err)
	return opened(t, append(files, "/sys/fs/cgroup/cgroup.procs")[0], os.O_RDWR)
}

// anonymous is a pidfd of the test's own.
func anonymous(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	check(t, err)
	return fileOf(t, fd)
}

func opened(t *testing.T, name string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, flags, 0o600)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func pipeEnd(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	check(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	return w
}

func pairEnd(t *testing.T, kind int) *os.File {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	check(t, err)
	other := os.NewFile(uintptr(fds[1]), "other end")
	t.Cleanup(func() { other.Close() })
	return fileOf(t, fds[0])
}

func fileOf(t *testing.T, fd int) *os.File {
	t.Helper()
	f := os.NewFile(uintptr(fd), "inherited")
	t.Cleanup(func() { f.Close() })
	return f
}

func rawSocket(t *testing.T, family, kind, protocol int) *os.File {
	t.Helper()
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	check(t, err)
	return fileOf(t, fd)
}

// filer is a socket of package net.
type filer interface{ File() (*os.File, error) }

func socketFile(t *testing.T, s filer) *os.File {
	t.Helper()
	f, err := s.File()
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func listening(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	check(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func tcpConnection(t *testing.T) *os.File {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, listening(t).Addr().(*net.TCPAddr))
	check(t, err)
	t.Cleanup(func() { c.Close() })
	return socketFile(t, c)
}

func unixListener(t *testing.T) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(harness.TempDir(t), "s"), Net: "unix"})
	check(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func unixConnection(t *testing.T) *os.File {
	t.Helper()
	c, err := net.DialUnix("unix", nil, unixListener(t).Addr().(*net.UnixAddr))
	check(t, err)
	t.Cleanup(func() { c.Close() })
	return socketFile(t, c)
}

// way is how a descriptor gets to a container's first program, or to an exec.
// In the foreground standard input and output go through the runtime, so that
// the program has a pipe.
type way struct {
	name  string
	flags []string
	edit  func(*exec.Cmd, *os.File)
}

var ways = []way{
	{"preserved", []string{"--preserve-fds", "1"}, func(cmd *exec.Cmd, f *os.File) { cmd.ExtraFiles = []*os.File{f} }},
	{"stdin", []string{"--detach"}, func(cmd *exec.Cmd, f *os.File) { cmd.Stdin = f }},
	{"stderr", []string{"--detach"}, func(cmd *exec.Cmd, f *os.File) { cmd.Stderr = f }},
}

// TestAttack04: a socket that was made outside sends past every guard that goes
// by the container's own cgroup or network, so none is passed on.
//
// Proves: S-109, S-110.
func TestAttack04(t *testing.T) {
	inherit(t, inheritances)
	t.Run("socket activation", activated)
	t.Run("in the foreground", relayed)
}

// TestInheritedKernelFiles is not on the list of attacks that gave the one above
// its number, and the same in kind.
//
// Proves: S-110.
func TestInheritedKernelFiles(t *testing.T) {
	inherit(t, kernelFiles)
	t.Run("out of the cgroup", leavesCgroup)
}

// leavesCgroup: whoever has such a file open leaves every limit, since the
// kernel asks for the rights of who opened it.
func leavesCgroup(t *testing.T) {
	r := harness.NewRuntimeWith(t, harness.SoftSage)
	b := harness.NewBundle(t, harness.Args("sh", "-c", "echo 0 >&3 && echo left"))
	res := r.StartWith(t, func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{hostCgroupFile(t)} },
		"run", "--preserve-fds", "1", "--bundle", b.Dir, harness.NewID()).Wait(t)
	if strings.Contains(res.Stdout, "left") {
		t.Errorf("got %s, want the program to stay in its cgroup", res)
	}
}

func inherit(t *testing.T, list []inheritance) {
	t.Helper()
	for _, in := range list {
		for _, w := range ways {
			t.Run(in.name+" as "+w.name, func(t *testing.T) {
				for name, host := range soft {
					t.Run(name, func(t *testing.T) { in.passOn(t, host, w) })
				}
			})
		}
	}
}

func (in inheritance) passOn(t *testing.T, host string, w way) {
	t.Helper()
	r := harness.NewRuntimeWith(t, host)
	r.Global = []string{"--log", filepath.Join(harness.TempDir(t), "log")}
	start := func(args ...string) harness.Result {
		f := in.open(t)
		return r.StartWith(t, func(cmd *exec.Cmd) { w.edit(cmd, f) }, args...).Wait(t)
	}
	b := harness.NewBundle(t, harness.Args("sleep", "1000"))
	id := harness.NewID()
	r.Must(t, "run", "--detach", "--bundle", b.Dir, id)
	in.judge(t, r, "exec", start(slices.Concat([]string{"exec"}, w.flags, []string{id, "true"})...))
	r.Must(t, "delete", "--force", id)
	for verb, flags := range map[string][]string{"run": append(w.flags, "--detach"), "create": w.flags} {
		if verb == "create" && flags[0] == "--detach" {
			flags = nil
		}
		id = harness.NewID()
		in.judge(t, r, verb, start(slices.Concat([]string{verb}, flags, []string{"--bundle", b.Dir, id})...))
		if in.says == "" {
			r.Must(t, "delete", "--force", id)
		}
	}
}

// relayed: that a socket is taken as standard input in the foreground does not
// give it to the program.
func relayed(t *testing.T) {
	r := harness.NewRuntimeWith(t, harness.SoftAgent)
	b := harness.NewBundle(t, harness.Args("readlink", "/proc/self/fd/0"))
	res := r.StartWith(t, func(cmd *exec.Cmd) { cmd.Stdin = tcpConnection(t) }, "run", "--bundle", b.Dir, harness.NewID()).Wait(t)
	if !strings.HasPrefix(res.Stdout, "pipe:") {
		t.Errorf("got %s, want a pipe", res)
	}
}

// judge reads the log: the standard error may be the socket.
func (in inheritance) judge(t *testing.T, r *harness.Runtime, verb string, res harness.Result) {
	t.Helper()
	log, _ := os.ReadFile(r.Global[1])
	check(t, os.RemoveAll(r.Global[1]))
	if in.says == "" {
		if res.Code != 0 {
			t.Errorf("%s: got %s and %q, want it passed on", verb, res, log)
		}
		return
	}
	text := strings.ReplaceAll(string(log), `\"`, `"`)
	if res.Code == 0 || !strings.Contains(text, in.says) || !strings.Contains(text, "["+denied+"]") {
		t.Errorf("%s: got exit status %d and %q, want a refusal with %q", verb, res.Code, log, in.says)
	}
}

// activated is systemd's way: LISTEN_FDS without any flag of the runtime's.
func activated(t *testing.T) {
	r := harness.NewRuntimeWith(t, harness.SoftAgent)
	b := harness.NewBundle(t, harness.Args("true"))
	res := r.StartWith(t, func(cmd *exec.Cmd) {
		cmd.ExtraFiles = []*os.File{socketFile(t, listening(t))}
		cmd.Args = append([]string{"sh", "-c", `export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}, "run", "--bundle", b.Dir, harness.NewID()).Wait(t)
	refused(t, r, res, denied, wantsPipe)
}

// sharing are containers that share something with the outside through which a
// socket's name could lead, and one that does not.
var sharing = []struct {
	name  string
	host  string
	edit  func(*testing.T, *specs.Spec)
	wants string
}{
	{"nothing", harness.SoftAgent, func(*testing.T, *specs.Spec) {}, "ok"},
	{"a folder", harness.SoftAgent, func(t *testing.T, s *specs.Spec) { bind(harness.TempDir(t), "/shared")(t, s) }, "EAFNOSUPPORT"},
	{"a folder, read-only", harness.SoftAgent, func(t *testing.T, s *specs.Spec) { bind(harness.TempDir(t), "/shared", "ro")(t, s) }, "EAFNOSUPPORT"},
	{"a file", harness.SoftAgent, func(t *testing.T, s *specs.Spec) {
		name := filepath.Join(harness.TempDir(t), "f")
		writeText(t, name, "x")
		bind(name, "/shared")(t, s)
	}, "ok"},
	{"a network namespace", harness.SoftAgent + "shared_namespaces: [network]\n", joinNetwork, "EPERM"},
}

// TestAttack04UnixSockets: where something is shared, AF_UNIX is closed, and so
// is a pair of datagram sockets, one end of which sends to any name.
//
// Proves: S-109.
func TestAttack04UnixSockets(t *testing.T) {
	for _, c := range sharing {
		t.Run(c.name, func(t *testing.T) {
			r := harness.NewRuntimeWith(t, c.host)
			root := victimRoot(t)
			for attempt, want := range map[string]string{
				"socket unix stream": c.wants, "socket unix datagram": c.wants,
				"socketpair unix":          "ok",
				"socketpair unix datagram": map[bool]string{true: "ok", false: "EPERM"}[c.wants == "ok"],
			} {
				b := victimBundle(t, root, expect.Program, "try", "init", attempt)
				c.edit(t, b.Spec)
				b.Write(t)
				res := r.Run(t, "run", "--bundle", b.Dir, harness.NewID())
				if res.Stdout != want {
					t.Errorf("%s: got %s, want %s", attempt, res, want)
				}
			}
		})
	}
}

// joinNetwork joins a network namespace that a process of the test made.
func joinNetwork(t *testing.T, s *specs.Spec) {
	t.Helper()
	joinNamespace(s, specs.NetworkNamespace, fmt.Sprintf("/proc/%d/ns/net", namespaceHolder(t, unix.CLONE_NEWNET)))
}

func joinNamespace(s *specs.Spec, kind specs.LinuxNamespaceType, path string) {
	dropNamespace(s, kind)
	s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: kind, Path: path})
}

// namespaceHolder is the pid of a process in new namespaces, until the test ends.
func namespaceHolder(t *testing.T, flags uintptr) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: flags}
	check(t, harness.StartCommand(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = harness.WaitCommand(cmd)
	})
	return cmd.Process.Pid
}
