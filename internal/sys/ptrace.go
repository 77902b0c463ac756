package sys

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stopLimit is how long a thread may take to stop. One that runs or sleeps
// stops at once; one in uninterruptible sleep, or frozen by the freezer of
// cgroup v1, stops only when that ends.
const stopLimit = 2 * time.Second

// seizeLimit bounds the whole of it: PTRACE_SEIZE waits for an execve(2) of the
// target that is under way.
const seizeLimit = stopLimit + time.Second

type answer[T any] struct {
	value T
	err   error
}

// whileStopped runs read while thread tid is stopped by ptrace(2), and lets go
// of it in any case. Calls of the tracer must come from one thread, and that
// thread's end detaches what it still traces: so it is one of its own.
func whileStopped[T any](tid int, read func() (T, error)) (T, error) {
	answers := make(chan answer[T], 1)
	ended := make(chan int, 1)
	go func() {
		ended <- dying(func() {
			value, err := trace(tid, read)
			answers <- answer[T]{value, err}
		})
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			awaitThreadEnd(<-ended) // it may be what detaches
		}
		return a.value, a.err
	case <-time.After(seizeLimit):
		var none T
		return none, fmt.Errorf("trace thread %d: not let in within %v", tid, seizeLimit)
	}
}

// trace seizes rather than attaches (Linux 3.4): it sends no SIGSTOP, so there
// is none to take back, and a thread that job control has stopped stays so.
func trace[T any](tid int, read func() (T, error)) (none T, err error) {
	if err := unix.PtraceSeize(tid); err != nil {
		return none, seizeError(tid, err)
	}
	if err := unix.PtraceInterrupt(tid); err != nil {
		return none, os.NewSyscallError("ptrace(PTRACE_INTERRUPT)", err)
	}
	signal, err := awaitStop(tid)
	if err != nil {
		return none, err
	}
	value, err := read()
	if err != nil {
		_ = detach(tid, signal)
		return none, err
	}
	return value, detach(tid, signal)
}

func seizeError(tid int, err error) error {
	err = os.NewSyscallError("ptrace(PTRACE_SEIZE)", err)
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("thread %d is traced already, or tracing it needs CAP_SYS_PTRACE: %w", tid, err)
	}
	return err
}

// patient is after how many questions awaitStop looks whether there is still
// somebody to answer: nearly always there is, and that call is the dearer one.
const patient = 8

// awaitStop returns the signal that the thread was about to get, or 0.
func awaitStop(tid int) (unix.Signal, error) {
	var signal unix.Signal
	err := error(unix.ESRCH) // which is the answer for a thread that runs, too
	asked := 0
	stopped := poll(stopLimit, func() bool {
		signal, err = pendingSignal(tid)
		asked++
		return !errors.Is(err, unix.ESRCH) || asked%patient == 0 && hasEnded(tid)
	})
	switch {
	case !stopped:
		return 0, fmt.Errorf("thread %d did not stop within %v: frozen, or in uninterruptible sleep", tid, stopLimit)
	case errors.Is(err, unix.ESRCH):
		return 0, fmt.Errorf("thread %d has ended: %w", tid, err)
	}
	return signal, err
}

// pendingSignal asks by PTRACE_GETSIGINFO what a stopped thread stopped for. It
// is not wait(2) that says so: somebody else in this process may be waiting for
// any child, and would take the answer away.
func pendingSignal(tid int) (unix.Signal, error) {
	var info unix.Siginfo
	_, err := ptrace(unix.PTRACE_GETSIGINFO, tid, 0, unsafe.Pointer(&info))
	if errors.Is(err, unix.EINVAL) || err == nil && info.Code>>8 == unix.PTRACE_EVENT_STOP {
		return 0, nil // by PTRACE_INTERRUPT or job control: nothing to deliver
	}
	return unix.Signal(info.Signo), err
}

// hasEnded looks without reaping: the thread may be a child of this process
// whose exit status somebody else wants. A stop of a tracee is told unasked.
func hasEnded(tid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, tid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return errors.Is(err, unix.ECHILD) || err == nil && info.Code >= cldExited && info.Code <= cldDumped
}

// The values of si_code that tell of an end: CLD_EXITED, CLD_KILLED between the
// two, CLD_DUMPED.
const (
	cldExited = 1
	cldDumped = 3
)

// detach lets the thread go on, with the signal that the stop held back. A call
// that the stop interrupted begins anew, but for the few that signal(7) lists
// as failing with EINTR after a stop, of which epoll_wait(2) is one.
func detach(tid int, signal unix.Signal) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(tid), 0, uintptr(signal), 0, 0)
	if errno != 0 {
		return os.NewSyscallError("ptrace(PTRACE_DETACH)", errno)
	}
	return nil
}

func ptrace(request, tid int, addr uint64, data unsafe.Pointer) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), uintptr(addr), uintptr(data), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
