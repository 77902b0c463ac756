package sys_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

// TestSocketCgroup asks for this process's own sockets, of all the forms in
// which a client can connect to the loopback address.
func TestSocketCgroup(t *testing.T) {
	diag, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(diag) })
	want := ownCgroup(t)
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		local := netip.MustParseAddrPort(l.Addr().String())
		conn, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		client := netip.MustParseAddrPort(conn.LocalAddr().String())
		if id, err := sys.SocketCgroup(diag, client, local); err != nil || id != want {
			t.Errorf("%s: saw cgroup %d, %v, want %d", network, id, err, want)
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset: nothing of the socket stays
		}
		_ = conn.Close()
		if id, err := sys.SocketCgroup(diag, client, local); !errors.Is(err, sys.ErrNoSocket) {
			t.Errorf("%s, closed: saw cgroup %d, %v", network, id, err)
		}
		// The kernel would find the listener where there is no client: somebody
		// else's, if the port was chosen so.
		if id, err := sys.SocketCgroup(diag, local, netip.AddrPortFrom(local.Addr(), 1)); !errors.Is(err, sys.ErrNoSocket) {
			t.Errorf("%s, a listener for a client: saw cgroup %d, %v", network, id, err)
		}
	}
}

// ownCgroup is the id of this process's cgroup v2, which is its inode number.
func ownCgroup(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut("\n"+string(text), "\n0::")
	if !ok {
		t.Fatal("this process is in no cgroup v2")
	}
	path, _, _ := strings.Cut(rest, "\n")
	for _, top := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		var fs unix.Statfs_t
		var st unix.Stat_t
		if unix.Statfs(top, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC && unix.Stat(filepath.Join(top, path), &st) == nil {
			return st.Ino
		}
	}
	t.Fatal("no cgroup v2 is mounted")
	return 0
}
