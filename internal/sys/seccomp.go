package sys

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// instruction is the size of struct sock_filter, maxInstructions the most that
// one filter may have (BPF_MAXINSNS).
const (
	instruction     = 8
	maxInstructions = 4096
)

// ErrNoFilter says that a thread has no seccomp filter, or that the kernel is
// built without CONFIG_CHECKPOINT_RESTORE: its answer is the same for both.
var ErrNoFilter = errors.New("no seccomp filter, or a kernel without CONFIG_CHECKPOINT_RESTORE")

// SeccompFilters reads back all seccomp filters of thread tid, the one that was
// loaded first in front, each as the bytes of its struct sock_filter array.
//
// PTRACE_SECCOMP_GET_FILTER is in ptrace(2) since Linux 4.4. It wants
// CAP_SYS_ADMIN and a caller that is under no filter itself. The thread is
// stopped for some ten microseconds. To the process that asks, the stop is a
// SIGCHLD and, for wait(2) of a child of its own, a status that is no exit.
func SeccompFilters(tid int) ([][]byte, error) {
	return whileStopped(tid, func() ([][]byte, error) {
		var filters [][]byte
		room := filterRoom()
		for {
			filter, err := getFilter(tid, uint64(len(filters)), room)
			if errors.Is(err, unix.ENOENT) {
				return filters, nil
			}
			if err != nil {
				return nil, err
			}
			filters = append(filters, filter)
		}
	})
}

// SeccompFilter reads back one filter of thread tid, index 0 being the one that
// was loaded first, whatever ptrace(2) says: the kernel counts from the oldest,
// so that an index keeps its meaning. ENOENT is the answer behind the last. See
// [SeccompFilters].
func SeccompFilter(tid int, index uint64) ([]byte, error) {
	return whileStopped(tid, func() ([]byte, error) { return getFilter(tid, index, filterRoom()) })
}

func filterRoom() []byte { return make([]byte, maxInstructions*instruction) }

func getFilter(tid int, index uint64, room []byte) ([]byte, error) {
	n, err := ptrace(unix.PTRACE_SECCOMP_GET_FILTER, tid, index, unsafe.Pointer(&room[0]))
	if errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("thread %d: %w", tid, ErrNoFilter)
	}
	if err != nil {
		return nil, os.NewSyscallError("ptrace(PTRACE_SECCOMP_GET_FILTER)", err)
	}
	return slices.Clone(room[:n*instruction]), nil
}

// LoadFilter sets no_new_privs and loads a seccomp filter for the calling
// thread alone, which must be one that ends: neither is ever undone. See
// [OnDyingThread].
func LoadFilter(filter []byte) error { return loadFilter(filter, 0) }

// loadFilter makes both calls in one thread, since the second needs what the
// first sets for that thread alone.
func loadFilter(filter []byte, flags uintptr) error {
	if len(filter) == 0 || len(filter)%instruction != 0 || len(filter)/instruction > math.MaxUint16 {
		return fmt.Errorf("seccomp filter of %d bytes: want a multiple of %d, and not none", len(filter), instruction)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_NO_NEW_PRIVS)", err)
	}
	// A copy, so that the instructions lie as they must be aligned.
	program := make([]unix.SockFilter, len(filter)/instruction)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&program[0])), len(filter)), filter)
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	tid, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return os.NewSyscallError("seccomp(SECCOMP_SET_MODE_FILTER)", errno)
	}
	if tid != 0 {
		return fmt.Errorf("seccomp(SECCOMP_SET_MODE_FILTER): thread %d is below another filter and was not given this one", tid)
	}
	return nil
}
