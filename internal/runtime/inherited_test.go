package runtime

import (
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCheckFile is attack 4 of the list: what a descriptor may be.
//
// Proves: S-110.
func TestCheckFile(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	socket := func(family, kind int) int { return open(t)(unix.Socket(family, kind, 0)) }
	pair := func(kind int) int {
		fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
		t.Cleanup(func() { _ = unix.Close(fds[1]) })
		return open(t)(fds[0], err)
	}
	tests := []struct {
		name string
		fd   int
		want string // part of the error, "" for none
	}{
		{"pipe", int(r.Fd()), ""},
		{"null device", open(t)(unix.Open("/dev/null", unix.O_RDWR, 0)), ""},
		{"directory", open(t)(unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)), "directory"},
		{"directory by path only", open(t)(unix.Open("/", unix.O_PATH, 0)), "directory"},
		{"stream pair", pair(unix.SOCK_STREAM), ""},
		{"seqpacket pair", pair(unix.SOCK_SEQPACKET), ""},
		{"datagram pair", pair(unix.SOCK_DGRAM), "beyond the container"},
		{"unconnected", socket(unix.AF_UNIX, unix.SOCK_STREAM), "beyond the container"},
		{"inet", socket(unix.AF_INET, unix.SOCK_STREAM), "beyond the container"},
		{"inet6", socket(unix.AF_INET6, unix.SOCK_DGRAM), "beyond the container"},
		{"netlink", socket(unix.AF_NETLINK, unix.SOCK_RAW), "beyond the container"},
		{"abstract name of a zero byte", abstract(t), "beyond the container"},
		{"client of a daemon", client(t), "beyond the container"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := checkFile(tt.fd)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func open(t *testing.T) func(fd int, err error) int {
	t.Helper()
	return func(fd int, err error) int {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
}

// client is connected to a socket with a name, as that of an engine has.
func client(t *testing.T) int {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: t.TempDir() + "/s"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	fd := open(t)(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: listener.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	return fd
}

// abstract is one of a pair of which the other end has a name that looks like
// none: it begins with the zero byte of abstract names and one more.
func abstract(t *testing.T) int {
	t.Helper()
	listener := open(t)(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))
	name := "@\x00" + t.Name()
	if err := unix.Bind(listener, &unix.SockaddrUnix{Name: name}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(listener, 1); err != nil {
		t.Fatal(err)
	}
	fd := open(t)(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		t.Fatal(err)
	}
	return fd
}
