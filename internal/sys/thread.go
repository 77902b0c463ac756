package sys

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// threadEnd is how long the end of a thread is waited for; it takes some
// microseconds, unless the machine is out of breath.
const threadEnd = time.Second

// OnDyingThread runs f on a thread that ends with it, and returns once it has.
// What f did to its thread alone (a seccomp filter, a namespace, a tracee)
// goes with the thread, by the kernel's own doing. f must not start goroutines
// that outlive it.
func OnDyingThread(f func()) {
	done := make(chan int)
	go func() { done <- dying(f) }()
	awaitThreadEnd(<-done)
}

// dying runs f on the calling goroutine, which is to end after it, and returns
// the number of the thread, or 0 if the thread stays.
func dying(f func()) int {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return unix.Gettid() // still locked, for which the runtime ends the thread
	}
	// Go parks a main thread instead of ending it. Held here, it cannot be the
	// one that the next goroutine gets.
	defer runtime.UnlockOSThread()
	OnDyingThread(f)
	return 0
}

func awaitThreadEnd(tid int) {
	poll(threadEnd, func() bool { return tid == 0 || unix.Tgkill(unix.Getpid(), tid, 0) != nil })
}

// eager is how often poll asks before it begins to sleep, which for a thread
// of Go's takes a millisecond: a hundred times what is waited for.
const eager = 200

// poll asks until done says so, and tells whether it did in time. The kernel
// has no call that waits for what this is used for and can be given a time.
func poll(limit time.Duration, done func() bool) bool {
	for range eager {
		if done() {
			return true
		}
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); <-tick.C {
		if done() {
			return true
		}
	}
	return done()
}
