//go:build kernel

package guard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestMain is the test, or a program that a test has started in a cgroup.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if play, ok := roles[os.Args[1]]; ok {
			play(os.Args[2:])
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// space is a network namespace of a test's own: a thread that is in it.
type space struct {
	jobs chan func()
	ns   int
}

func newSpace(t *testing.T) *space {
	t.Helper()
	s := &space{jobs: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			s.ns, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		made <- err
		for job := range s.jobs {
			job()
		}
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(s.jobs); _ = unix.Close(s.ns) })
	return s
}

// do runs f in the namespace, and returns after it.
func (s *space) do(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error)
	s.jobs <- func() { done <- f() }
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Both ends of the wire between a container and its neighbour.
const (
	container4, peer4 = "10.77.0.2", "10.77.0.1"
	container6, peer6 = "2001:db8:77::2", "2001:db8:77::1"
)

var (
	containerMAC = []byte{2, 0x77, 0, 0, 0, 2}
	peerMAC      = []byte{2, 0x77, 0, 0, 0, 1}
)

// wired is two namespaces with a wire between them, and a default route from
// the container's to its peer. What the kernel has to ask about neighbours it
// knows already.
type wired struct{ container, peer *space }

func newWired(t *testing.T) *wired {
	t.Helper()
	w := &wired{newSpace(t), newSpace(t)}
	w.peer.do(t, func() error { return raise("lo") })
	w.container.do(t, func() error {
		link := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "eth0", HardwareAddr: containerMAC}, PeerName: "peer0",
			PeerHardwareAddr: peerMAC, PeerNamespace: netlink.NsFd(w.peer.ns),
		}
		return first(raise("lo"), netlink.LinkAdd(link), end("eth0", container4, container6, peer4, peer6, peerMAC), routes())
	})
	w.peer.do(t, func() error {
		return first(end("peer0", peer4, peer6, container4, container6, containerMAC))
	})
	return w
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func raise(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

func end(name, ip4, ip6, other4, other6 string, mac []byte) error {
	if err := raise(name); err != nil {
		return err
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, text := range []string{ip4 + "/24", ip6 + "/64"} {
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		addr.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(link, addr); err != nil {
			return err
		}
	}
	for _, ip := range []string{other4, other6} {
		if err := netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: parseIP(ip), HardwareAddr: mac}); err != nil {
			return err
		}
	}
	return nil
}

func routes() error {
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	for _, gw := range []string{peer4, peer6} {
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: parseIP(gw)}); err != nil {
			return fmt.Errorf("route by %s: %w", gw, err)
		}
	}
	return nil
}

// group is a cgroup of version 2.
type group struct{ dir string }

// cgroups is where version 2 is mounted.
func cgroups(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
			return dir
		}
	}
	t.Fatal("no cgroup v2")
	return ""
}

func newGroup(t *testing.T) *group { return groupBelow(t, cgroups(t)) }

func groupBelow(t *testing.T, parent string) *group {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "sage-guard-test") //nolint:usetesting // a cgroup lies in a tree of the kernel's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := os.Stat(dir); err != nil {
			return // removed by the test
		}
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		eventually(t, dir+" is gone", func() bool { return os.Remove(dir) == nil })
	})
	return &group{dir}
}

func (g *group) fd(t *testing.T) int {
	t.Helper()
	dir, err := os.Open(g.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return int(dir.Fd())
}

func (g *group) guard(t *testing.T, o Options) Record {
	t.Helper()
	r, err := Attach(g.fd(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(g.fd(t), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// command is a role of this program, to be started in the cgroup.
func (g *group) command(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", append([]string{role}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{UseCgroupFD: true, CgroupFD: g.fd(t)}
	return cmd
}

// run runs a role to its end, in the namespace, and reads what it says.
func (g *group) run(t *testing.T, s *space, answer any, role string, args ...string) {
	t.Helper()
	cmd := g.command(t, role, args...)
	var out bytes.Buffer
	cmd.Stdout = &out
	s.do(t, cmd.Start)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s %q: %v", role, args, err)
	}
	if err := json.Unmarshal(out.Bytes(), answer); err != nil {
		t.Fatalf("%s %q said %q: %v", role, args, out.Bytes(), err)
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}
