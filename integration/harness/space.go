package harness

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Space is a network namespace of a test's own: a thread that is in it until the
// test is over. Sockets that are made there stay of that namespace.
type Space struct {
	Path string // of its handle in /proc
	jobs chan func()
}

// NewSpace makes one in which lo is up.
func NewSpace(tb testing.TB) *Space {
	tb.Helper()
	s := &Space{jobs: make(chan func())}
	made := make(chan error)
	OnThread(func() {
		s.Path = fmt.Sprintf("/proc/%d/task/%d/ns/net", unix.Getpid(), unix.Gettid())
		made <- unix.Unshare(unix.CLONE_NEWNET)
		for job := range s.jobs {
			job()
		}
	})
	if err := <-made; err != nil {
		tb.Fatalf("harness: make a network namespace: %v", err)
	}
	tb.Cleanup(func() { close(s.jobs) })
	s.Do(func() { LinkUp(tb, "lo") })
	return s
}

// Do runs f in the namespace and waits for it. f may not end the test, which
// is another goroutine's: it is to use Error and not Fatal.
func (s *Space) Do(f func()) {
	done := make(chan struct{})
	s.jobs <- func() { defer close(done); f() }
	<-done
}

// OnThread runs f on a thread that ends with it, and returns once it has begun.
// Go ends no main thread, which therefore must not be that one.
func OnThread(f func()) {
	begun := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			OnThread(f)
			close(begun)
			runtime.UnlockOSThread()
			return
		}
		close(begun)
		f()
	}()
	<-begun
}

// LinkUp puts a link of the calling thread's namespace up, with addresses, each
// "address/bits". It does not wait until IPv6 has found that nobody else has one.
func LinkUp(tb testing.TB, name string, addresses ...string) {
	tb.Helper()
	link, err := netlink.LinkByName(name)
	for _, address := range addresses {
		var a *netlink.Addr
		if err == nil {
			a, err = netlink.ParseAddr(address)
		}
		if err == nil {
			if a.IP.To4() == nil {
				a.Flags = unix.IFA_F_NODAD
			}
			err = netlink.AddrAdd(link, a)
		}
	}
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		tb.Errorf("harness: link %s: %v", name, err)
	}
}
