package doctor

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

// standIn is a process that stands where a container's would, to be looked at.
type standIn struct {
	filter    []byte // a seccomp filter to be under
	clone     uintptr
	cgroup    int // an open directory, where intoGroup
	intoGroup bool
}

// with starts this very program as the stand-in, which stops before its first
// instruction and is killed after use: there is no other program that every
// host is sure to have, and none that should be run for a probe.
func (s standIn) with(use func(pid int) error) (err error) {
	sys.OnDyingThread(func() {
		if s.filter != nil {
			if err = sys.LoadFilter(s.filter); err != nil {
				return
			}
		}
		var pid int
		if pid, err = s.start(); err != nil {
			return
		}
		defer func() { err = errors.Join(err, end(pid)) }()
		if err = holdStopped(pid); err == nil {
			err = use(pid)
		}
	})
	return err
}

// start returns with the process traced by the calling thread, which must be
// the one that calls holdStopped; the process dies with it.
func (s standIn) start() (int, error) {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"sage-check"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{
		Ptrace: true, Pdeathsig: unix.SIGKILL, Cloneflags: s.clone, UseCgroupFD: s.intoGroup, CgroupFD: s.cgroup,
	}})
	if err != nil {
		return 0, &os.SyscallError{Syscall: "start a stopped copy of this program", Err: err}
	}
	return pid, nil
}

// holdStopped turns the stop of ptrace(2) after execve(2) into one of job
// control, so that the process can be traced anew, by an unfiltered thread.
func holdStopped(pid int) error {
	if err := awaitStop(pid, unix.SIGTRAP); err != nil {
		return err
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return os.NewSyscallError("kill", err)
	}
	if err := unix.PtraceDetach(pid); err != nil {
		return os.NewSyscallError("ptrace(PTRACE_DETACH)", err)
	}
	return awaitStop(pid, unix.SIGSTOP)
}

// awaitStop waits without a time limit: the process has nothing to do before it
// stops but execve(2) of a file that is in memory.
func awaitStop(pid int, signal unix.Signal) error {
	var status unix.WaitStatus
	if err := wait(pid, &status, unix.WUNTRACED); err != nil {
		return err
	}
	if !status.Stopped() || status.StopSignal() != signal {
		return fmt.Errorf("a stopped copy of this program: wait status %#x, want a stop by %v", int(status), signal)
	}
	return nil
}

// end kills and reaps. While the process is still traced, wait4(2) may tell of
// a stop once more before it tells of the end.
func end(pid int) error {
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return os.NewSyscallError("kill", err)
	}
	var status unix.WaitStatus
	for {
		if err := wait(pid, &status, 0); err != nil || !status.Stopped() {
			return err
		}
	}
}

func wait(pid int, status *unix.WaitStatus, options int) error {
	for {
		_, err := unix.Wait4(pid, status, options, nil)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("wait4", err)
		}
	}
}
