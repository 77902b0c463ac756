package sys_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

// TestFDPassing sends messages with and without a descriptor, one that is too
// long, one with two descriptors, and more than the other side takes.
func TestFDPassing(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(pair[1]) })
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd, room := int(null.Fd()), make([]byte, 8)
	receive := func() (string, bool, error) {
		n, got, err := sys.ReceiveFD(pair[1], room)
		if got >= 0 {
			flags, _ := unix.FcntlInt(uintptr(got), unix.F_GETFD, 0)
			if flags != unix.FD_CLOEXEC {
				t.Errorf("flags: saw %d, want close-on-exec", flags)
			}
			_ = unix.Close(got)
		}
		return string(room[:n]), got >= 0, err
	}
	for _, with := range []int{fd, -1} {
		if err := sys.SendFD(pair[0], []byte("hello"), with); err != nil {
			t.Fatal(err)
		}
		if text, got, err := receive(); text != "hello" || got != (with >= 0) || err != nil {
			t.Errorf("saw %q, %v, %v", text, got, err)
		}
	}
	if err := sys.SendFD(pair[0], []byte("too long for it"), fd); err != nil {
		t.Fatal(err)
	}
	if _, got, err := receive(); got || err == nil || !strings.Contains(err.Error(), "did not fit") {
		t.Errorf("too long: saw %v, %v", got, err)
	}
	if err := unix.Sendmsg(pair[0], []byte("two"), unix.UnixRights(fd, fd), nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, got, err := receive(); got || err == nil || !strings.Contains(err.Error(), "saw 2 descriptors") {
		t.Errorf("two: saw %v, %v", got, err)
	}
	for err == nil {
		err = sys.SendFD(pair[0], []byte("x"), fd)
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Errorf("full: saw %v", err)
	}
	_ = unix.Close(pair[0])
	for {
		text, _, err := receive()
		if err != nil {
			t.Fatal(err)
		}
		if text == "" {
			break // the end
		}
	}
}
