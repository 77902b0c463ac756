//go:build kernel

package guard_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress/guard"
)

// asked is in the environment of a process that a test has started.
const asked = "SAGE_GUARD_TEST_ACT"

// TestAct is that process: one of the container's. To a test run it is nothing.
func TestAct(*testing.T) {
	if os.Getenv(asked) != "" {
		act(flag.Arg(0), flag.Args()[1:])
		os.Exit(0)
	}
}

// group is a cgroup of a test's own.
type group struct {
	path string
	fd   int
}

// newGroup makes one below parent, or below the root of this machine's cgroup2.
func newGroup(t *testing.T, parent string) group {
	t.Helper()
	if parent == "" {
		parent = mounted(t)
	}
	path, err := os.MkdirTemp(parent, "sage-gguard-") //nolint:usetesting // a cgroup is made where cgroups are
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = dir.Close()
		if err := removed(path); err != nil {
			t.Errorf("cgroup is left: %v", err)
		}
	})
	return group{path, int(dir.Fd())}
}

// removed waits for the last process to be gone.
func removed(path string) (err error) {
	for range 100 {
		if err = os.Remove(path); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

func mounted(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[2] == "cgroup2" {
			return f[1]
		}
	}
	t.Fatal("no cgroup2 is mounted")
	return ""
}

func attach(t *testing.T, g group, o guard.Options) guard.Record {
	t.Helper()
	r, err := guard.Attach(g.fd, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Verify(g.fd, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// space is a network namespace of a test's own: a thread that is in it.
type space struct {
	jobs chan func()
	ns   netns.NsHandle
}

func newSpace(t *testing.T, enter func() (netns.NsHandle, error)) *space {
	t.Helper()
	s := &space{jobs: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the function
		var err error
		s.ns, err = enter()
		ready <- err
		for job := range s.jobs {
			job()
		}
	}()
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(s.jobs); _ = s.ns.Close() })
	return s
}

func (s *space) run(t *testing.T, job func() error) {
	t.Helper()
	done := make(chan error)
	s.jobs <- func() { done <- job() }
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Addresses of the container's end of a link, and of the stranger's.
const (
	own4, own6           = "10.97.0.1", "fd97::1"
	stranger4, stranger6 = "10.97.0.2", "fd97::2"
)

// link joins two namespaces by a pair of interfaces.
func link(t *testing.T, a, b *space) {
	t.Helper()
	a.run(t, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "veth"
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "veth", PeerNamespace: netlink.NsFd(b.ns)})
	})
	a.run(t, func() error { return raise("veth", own4+"/24", own6+"/64") })
	b.run(t, func() error { return raise("veth", stranger4+"/24", stranger6+"/64") })
}

func raise(name string, addresses ...string) error {
	for _, up := range []string{"lo", name} {
		l, err := netlink.LinkByName(up)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
		if up == "lo" {
			continue
		}
		for _, text := range addresses {
			a, err := netlink.ParseAddr(text)
			if err != nil {
				return err
			}
			a.Flags = unix.IFA_F_NODAD
			if err := netlink.AddrAdd(l, a); err != nil {
				return err
			}
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0)
}

// place is a container's namespace with a stranger at the other end of its link.
func place(t *testing.T) (own, stranger *space) {
	t.Helper()
	own, stranger = newSpace(t, netns.New), newSpace(t, netns.New)
	link(t, own, stranger)
	reached(t, own)
	return own, stranger
}

// reached waits for the link to carry: a connection is refused by the stranger.
func reached(t *testing.T, own *space) {
	t.Helper()
	for range 100 {
		var err error
		own.run(t, func() error {
			_, err = net.DialTimeout("tcp", stranger4+":9", 100*time.Millisecond)
			return nil
		})
		if errors.Is(err, unix.ECONNREFUSED) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the link does not carry")
}

// result is how a process fared.
type result struct {
	Error string
	Took  time.Duration
}

// start starts a process in a cgroup and a namespace.
func start(t *testing.T, s *space, g group, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	out := new(bytes.Buffer)
	self, err := filepath.EvalSymlinks("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"-test.run=^TestAct$", "--"}, args...)...)
	cmd.Env = append(os.Environ(), asked+"=1")
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.fd, Pdeathsig: unix.SIGKILL}
	s.run(t, cmd.Start)
	return cmd, out
}

// do is one process that does one thing.
func do(t *testing.T, s *space, g group, args ...string) (r result) {
	t.Helper()
	cmd, out := start(t, s, g, args...)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v: %s", args, err, out)
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%s: %v: %q", args, err, out)
	}
	return r
}

// serve is a process of the container's that answers until the test ends.
func serve(t *testing.T, s *space, g group, network, address string) {
	t.Helper()
	cmd, _ := start(t, s, g, "serve", network, address)
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 250 { // until it listens
		listens := false
		s.run(t, func() error {
			file, err := os.ReadFile("/proc/thread-self/net/tcp6")
			n, _ := strconv.Atoi(strings.TrimPrefix(address, ":"))
			listens = bytes.Contains(file, fmt.Appendf(nil, ":%04X ", n))
			return err
		})
		if listens {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the server does not listen")
}

func say(r any) {
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
