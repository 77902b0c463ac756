package sys

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// The calls that the scheduler is not told of do what those of package unix do.
func TestNow(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	to := netip.MustParseAddrPort(l.Addr().String())
	if err := ConnectNow(fd, to); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	if err := ConnectNow(fd, to); err != nil { // it is connected: says so once
		t.Errorf("result of connecting: %v", err)
	}
	var room [8]byte
	if _, err := ReadNow(fd, room[:]); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("read with nothing there: %v, want EAGAIN", err)
	}
	if n, err := WriteNow(fd, []byte("hello")); n != 5 || err != nil {
		t.Errorf("write: %d, %v", n, err)
	}
	if n, err := peer.Read(room[:]); string(room[:n]) != "hello" {
		t.Errorf("the peer got %q, %v", room[:n], err)
	}
	if err := ShutdownNow(fd); err != nil {
		t.Error(err)
	}
	if n, _ := peer.Read(room[:]); n != 0 {
		t.Errorf("after the end the peer got %d bytes", n)
	}
}

func TestConnectNowFails(t *testing.T) {
	for to, want := range map[string]error{"[::1]:1": unix.ECONNREFUSED, "127.0.0.1:1": unix.ECONNREFUSED} {
		address := netip.MustParseAddrPort(to)
		family := unix.AF_INET
		if address.Addr().Is6() {
			family = unix.AF_INET6
		}
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		err = ConnectNow(fd, address)
		for errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EALREADY) {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 1000)
			err = ConnectNow(fd, address)
		}
		if address.Addr().Is6() && errors.Is(err, unix.EADDRNOTAVAIL) {
			want = err // a host without IPv6
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", to, err, want)
		}
		_ = unix.Close(fd)
	}
}

func TestSpliceNow(t *testing.T) {
	var from, to [2]int
	for _, p := range []*[2]int{&from, &to} {
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(p[0])
		defer unix.Close(p[1])
	}
	if _, err := SpliceNow(from[0], to[1], 10); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("out of an empty pipe: %v, want EAGAIN", err)
	}
	if _, err := unix.Write(from[1], []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if n, err := SpliceNow(from[0], to[1], 10); n != 5 || err != nil {
		t.Errorf("moved %d, %v; want 5", n, err)
	}
}
