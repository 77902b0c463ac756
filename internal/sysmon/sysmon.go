// Package sysmon lets the Go runtime's own watchdog thread sleep longer. That
// thread wakes up every 20 µs as long as anything is going on, to take a
// processor away from who has sat in a system call. A runtime sits in system
// calls all the time and has next to nothing else to do, so that these wake-ups
// were half of all its context switches and a seventh of what a start costs.
//
// Go has no setting for it. The kernel has one: the timer slack of a thread,
// prctl(2) PR_SET_TIMERSLACK, by which its sleeps may end later so that several
// end together. Timers of the other threads stay as they are.
//
// It is a package of its own, on package syscall alone, so that it is set up
// before nearly all others are.
package sysmon

import (
	"runtime"
	"syscall"
)

// slack is how much later the watchdog may wake up, in decimal nanoseconds:
// within a tick of the kernel, and a tenth of what Go lets pass before it looks
// for a goroutine that does not give way.
const slack = "1000000"

// The values of linux/prctl.h.
const (
	prSetTimerslack = 29
	prGetTimerslack = 30
)

// given is the slack that this process was started with. To ask for it here is
// what lets importing the package be enough.
var given = calm()

// calm is to be called on the first thread, whose slack it returns. Where it
// cannot do its work, as without CAP_SYS_NICE, all goes on as it would have, only
// dearer.
func calm() uintptr {
	own, _, _ := syscall.RawSyscall(syscall.SYS_PRCTL, prGetTimerslack, 0, 0)
	if tid := firstBesides(); tid != "" {
		setSlack(tid)
	}
	return own
}

func setSlack(tid string) {
	// Linux 4.6; it may be named by any thread's number.
	fd, err := syscall.Open("/proc/"+tid+"/timerslack_ns", syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = syscall.Write(fd, []byte(slack))
	_ = syscall.Close(fd)
}

// firstBesides gives the number of the thread that was started first after the
// calling one. It is the watchdog: the Go runtime starts it before it runs
// anything else, and the kernel lists threads in the order of their start.
func firstBesides() string {
	fd, err := syscall.Open("/proc/self/task", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer syscall.Close(fd)
	var buf [1024]byte
	n, err := syscall.ReadDirent(fd, buf[:])
	if err != nil {
		return ""
	}
	_, _, names := syscall.ParseDirent(buf[:n], -1, nil) // without . and ..
	if len(names) < 2 {
		return ""
	}
	return names[1]
}

// Exact runs f, which may start processes, on a thread that has the timer slack
// that this process was started with. The watchdog may start threads, these have
// its slack, and so would processes that one of them starts: the container's
// program, for good, and hooks.
func Exact(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, given, 0)
	return f()
}
