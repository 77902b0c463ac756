package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Need is what a ring asks of the process its tests run in.
type Need int

const (
	// Root fails the ring at once when it does not run as root.
	Root Need = 1 << iota
	// Mounts gives the tests a mount namespace of their own, so that the mounts
	// others make meanwhile do not look like leaks.
	Mounts
	// Network gives them a network namespace of their own, with nothing but
	// loopback: there every port is free, and nothing leads out.
	Network
)

const isolatedEnv = "SAGE_HARNESS_ISOLATED"

// Main runs a ring: it collects orphans, so that a detached container is still
// somebody's child, and removes the scratch folder at the end. Call it from
// TestMain.
func Main(m *testing.M, needs Need) {
	os.Exit(runMain(m, needs))
}

// runMain returns where Main exits, so that deferred work is done.
func runMain(m *testing.M, needs Need) int {
	if needs&Root != 0 && os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "harness: this ring needs root")
		return 1
	}
	if needs&(Mounts|Network) != 0 && os.Getenv(isolatedEnv) == "" {
		return reexec(needs)
	}
	if err := prepare(needs); err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		return 1
	}
	code := m.Run()
	if err := leaveNothing(); err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		return 1
	}
	return code
}

// unshare(2) moves one thread only, so a running Go program cannot change the
// namespace of all its threads: a child is born into it instead.
func reexec(needs Need) int {
	flags := map[Need]uintptr{Mounts: unix.CLONE_NEWNS, Network: unix.CLONE_NEWNET}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), isolatedEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: flags[needs&Mounts] | flags[needs&Network], Pdeathsig: syscall.SIGTERM}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "harness: namespaces:", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

func prepare(needs Need) error {
	if needs&Mounts != 0 {
		// Go made every mount private for the child. Shared is what a runtime
		// meets on a systemd host, and what shows a mount that got out.
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
			return os.NewSyscallError("mount shared /", err)
		}
	}
	if needs&Network != 0 {
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err != nil {
			return fmt.Errorf("link lo: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl subreaper", err)
	}
	// The same for every machine: files a test makes must not depend on the
	// shell that started it.
	unix.Umask(0o022)
	go reapForever()
	return nil
}

// leaveNothing is the last line of defence: a test that failed half way must
// not leave containers on the machine, and saying so must not be lost.
func leaveNothing() error {
	left, err := Descendants()
	for _, p := range left {
		_ = unix.Kill(p.PID, unix.SIGKILL)
	}
	if len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("%d processes were left and have been killed, the first is %s", len(left), left[0]))
	}
	err = errors.Join(err, removeCgroups(Mark()))
	if dir := scratch.dir; dir != "" {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// Mark is in the id of every container of this process, so that its cgroups
// and files are told from those of tests running beside it.
func Mark() string {
	return "sagetest" + strconv.Itoa(os.Getpid())
}

var scratch struct {
	once sync.Once
	dir  string
	err  error
}

// Scratch returns the folder of this test process, removed by Main.
func Scratch(tb testing.TB) string {
	tb.Helper()
	scratch.once.Do(func() {
		scratch.dir, scratch.err = os.MkdirTemp("", Mark()+"-")
		if scratch.err == nil {
			// Tests as another user reach binaries and root file systems here.
			scratch.err = os.Chmod(scratch.dir, 0o755)
		}
	})
	if scratch.err != nil {
		tb.Fatalf("harness: %v", scratch.err)
	}
	return scratch.dir
}
