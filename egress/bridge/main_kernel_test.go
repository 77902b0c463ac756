//go:build kernel

package bridge_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/egress/bridge"
	"github.com/sage-sandbox/sage/egress/confine"
	"github.com/sage-sandbox/sage/internal/sys"
)

// user is one that has nothing on this machine.
const user = 64398

// program is the sage-egress that the tests start: the real one, built for them.
var program string

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "client" {
		client(os.Args[2])
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "bridge")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "sage-egress")
	build := exec.Command("go", "build", "-tags", "netgo osusergo", "-ldflags", "-s -w", "-o", program, "../../cmd/sage-egress")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Printf("%s: %v\n%s", build, err, out)
		return 1
	}
	return m.Run()
}

// space is a network namespace of a test's own: a thread that is in it.
type space struct{ jobs chan func() }

func newSpace(t *testing.T) *space {
	t.Helper()
	s := &space{jobs: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		made <- unix.Unshare(unix.CLONE_NEWNET)
		for job := range s.jobs {
			job()
		}
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(s.jobs) })
	return s
}

// do runs f in the namespace, and returns after it.
func (s *space) do(f func()) {
	done := make(chan struct{})
	s.jobs <- func() { defer close(done); f() }
	<-done
}

// dial connects from inside the namespace.
func (s *space) dial(t *testing.T, network, address string) net.Conn {
	t.Helper()
	conn, err := s.tryDial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn
}

func (s *space) tryDial(network, address string) (conn net.Conn, err error) {
	s.do(func() { conn, err = net.DialTimeout(network, address, 2*time.Second) })
	return conn, err
}

func (s *space) sh(t *testing.T, script string) {
	t.Helper()
	s.do(func() {
		if out, err := exec.CommandContext(t.Context(), "sh", "-ec", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	})
}

// group is a cgroup of a test's own with one process in it, as a container's.
type group struct {
	dir string
	cmd *exec.Cmd
}

func newGroup(t *testing.T) *group {
	t.Helper()
	dir, err := os.MkdirTemp(cgroups(t), "sage-bridge-test") //nolint:usetesting // a cgroup lies in a tree of the kernel's
	if err != nil {
		t.Fatal(err)
	}
	g := &group{dir: dir}
	t.Cleanup(func() {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		if g.cmd != nil {
			_ = g.cmd.Wait()
		}
		eventually(t, "the cgroup is gone", func() bool { return os.Remove(dir) == nil })
	})
	g.cmd = exec.Command("sleep", "1000")
	g.start(t, g.cmd)
	return g
}

// start starts a program in the cgroup.
func (g *group) start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	dir, err := os.Open(g.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd.SysProcAttr = &unix.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

func (g *group) id(t *testing.T) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(g.dir, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func (g *group) empty(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	_ = g.cmd.Wait()
	g.cmd = nil
}

// cgroups is where cgroup v2 is mounted.
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

// served is a running bridge with the things that it was made of.
type served struct {
	*space
	*group
	folder string
	port   uint16
	cmd    *exec.Cmd
	took   time.Duration // from fork to the ready byte
	ended  chan error
}

func serve(t *testing.T, s *space, g *group, o bridge.Options, change func(*egress.BridgeConfig)) *served {
	t.Helper()
	return serveBy(t, exec.Command(program, "bridge"), s, g, o, change)
}

func serveBy(t *testing.T, cmd *exec.Cmd, s *space, g *group, o bridge.Options, change func(*egress.BridgeConfig)) *served {
	t.Helper()
	b := &served{space: s, group: g, folder: t.TempDir(), cmd: cmd, ended: make(chan error, 1)}
	root := filepath.Join(b.folder, "root")
	if err := os.Mkdir(root, 0o555); err != nil {
		t.Fatal(err)
	}
	o.Unix, o.Control = filepath.Join(b.folder, "egress.sock"), filepath.Join(b.folder, "control.sock")
	var sockets *bridge.Sockets
	var err error
	s.do(func() { sockets, err = bridge.Listen(o) })
	if err != nil {
		t.Fatal(err)
	}
	b.port = sockets.Port
	c := egress.BridgeConfig{Version: egress.ConfigVersion, Ready: 0, Events: 1, Container: "test"}
	files := sockets.Inherit(2, &c)
	if change != nil {
		change(&c)
	}
	b.start(t, c, files)
	return b
}

func (b *served) start(t *testing.T, c egress.BridgeConfig, files []*os.File) {
	t.Helper()
	ready, write := pipe(t, 0), pipe(t, 1)
	events, err := os.Open(filepath.Join(b.dir, "cgroup.events"))
	if err != nil {
		t.Fatal(err)
	}
	b.cmd.Stderr = os.Stderr
	begin := time.Now()
	launch(t, b.cmd, filepath.Join(b.folder, "root"), c, append([]*os.File{write, events}, files...))
	go func() { b.ended <- b.cmd.Wait() }()
	t.Cleanup(func() { _ = b.cmd.Process.Kill() })
	var one [2]byte
	if n, err := ready.Read(one[:]); n != 1 || err != nil {
		t.Fatalf("no ready byte: %d, %v", n, err)
	}
	b.took = time.Since(begin)
	_ = ready.Close()
}

// launch starts a program as the runtime does, and closes the files.
func launch(t *testing.T, cmd *exec.Cmd, root string, document any, files []*os.File) {
	t.Helper()
	orders, err := confine.Launch(cmd, confine.Identity{UID: user, GID: user, Root: root}, nil)
	if err == nil {
		err = orders.Give(document, files)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		_ = f.Close()
	}
}

// pipes holds the second half of a pipe for the call after.
var pipes [2]*os.File

func pipe(t *testing.T, half int) *os.File {
	t.Helper()
	if half == 0 {
		var err error
		if pipes[0], pipes[1], err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
	}
	return pipes[half]
}

// proxy is the other end of a bridge's control connection, played by the test.
type proxy struct {
	control *os.File
	dns     int
}

func (b *served) connect(t *testing.T) *os.File {
	t.Helper()
	control, err := bridge.Connect(filepath.Join(b.folder, "control.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = control.Close() })
	return control
}

func (b *served) proxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{control: b.connect(t)}
	message := make([]byte, 100)
	n, fd, err := sys.ReceiveFD(int(p.control.Fd()), message)
	if err != nil || string(message[:n]) != egress.Greeting {
		t.Fatalf("greeting: saw %q, %v", message[:n], err)
	}
	p.dns = fd
	return p
}

// next is the connection that the bridge has handed over.
func (p *proxy) next(t *testing.T) (egress.Arrival, *os.File) {
	t.Helper()
	message := make([]byte, 100)
	n, fd, err := sys.ReceiveFD(int(p.control.Fd()), message)
	if err != nil || fd < 0 {
		t.Fatalf("arrival: descriptor %d, %v", fd, err)
	}
	arrival, err := egress.ParseArrival(message[:n])
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "connection")
	t.Cleanup(func() { _ = f.Close() })
	return arrival, f
}

// status is a number of /proc/PID/status, in KiB where it is a size.
func (b *served) status(t *testing.T, field string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n"+field+":")
	var n int
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatalf("%s: %v", field, err)
	}
	return n
}

// onCPU is the time that all threads have run, which says more than the clock on
// a machine that is busy with other things.
func (b *served) onCPU(t *testing.T) time.Duration {
	t.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", b.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	for _, name := range names {
		var ran int64
		text, _ := os.ReadFile(name)
		_, _ = fmt.Sscan(string(text), &ran)
		sum += time.Duration(ran)
	}
	return sum
}

func (b *served) descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// client is a program in a container: it connects to an address and says what
// it is told.
func client(address string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	text, err := io.ReadAll(conn)
	fmt.Printf("%s (%v)\n", text, err)
	os.Exit(0)
}

func newFile(fd int, name string) *os.File { return os.NewFile(uintptr(fd), name) }
