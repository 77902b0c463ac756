//go:build kernel

package sys_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

// TestMain is the test, or what a test started: a program to be looked at.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || !strings.HasPrefix(os.Args[1], "child-") {
		os.Exit(m.Run())
	}
	err := map[string]func(string) error{
		"child-fifo": writeFIFO, "child-echo": echoSignals, "child-read": readFilters,
	}[os.Args[1]](os.Args[2])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// writeFIFO does what libcontainer's init does between create and start.
func writeFIFO(path string) error {
	runtime.LockOSThread()
	fmt.Println(unix.Gettid())
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	_, err = unix.Write(fd, []byte("go"))
	return err
}

// echoSignals says a line for every SIGUSR1.
func echoSignals(string) error {
	signals := make(chan os.Signal, 100)
	signal.Notify(signals, unix.SIGUSR1)
	fmt.Println(os.Getpid())
	for range signals {
		fmt.Println("got one")
	}
	return nil
}

func readFilters(pid string) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	_, err = sys.SeccompFilters(n)
	fmt.Println(err)
	return nil
}

// Two filters that can be told apart and let everything through: one returns
// SECCOMP_RET_ALLOW at once, the other loads the call's number before.
var (
	allow     = []byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f}
	loadAllow = append([]byte{0x20, 0, 0, 0, 0, 0, 0, 0}, allow...)
)

// child is a process that a test started from its own binary.
type child struct {
	cmd *exec.Cmd
	out *bufio.Reader
	tid int // the thread that said so in its first line
}

// start starts a child below the filters given, the first being loaded first.
func start(t *testing.T, role, arg string, filters ...[]byte) *child {
	t.Helper()
	c := &child{cmd: exec.Command("/proc/self/exe", role, arg)}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	// Filters are inherited: loaded by a thread that ends, the child has them.
	sys.OnDyingThread(func() {
		for _, filter := range filters {
			if err = sys.LoadFilter(filter); err != nil {
				return
			}
		}
		err = c.cmd.Start()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.end)
	return c
}

func (c *child) end() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func (c *child) line(t *testing.T) string {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

// ready waits for the first line, and until the child's thread is asleep in
// the kernel's function wchan.
func (c *child) ready(t *testing.T, wchan string) {
	t.Helper()
	var err error
	if c.tid, err = strconv.Atoi(c.line(t)); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/proc/%d/wchan", c.tid)
	eventually(t, path+" is "+wchan, func() bool { return wchan == "" || read(t, path) == wchan })
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// status is one field of /proc/PID/status.
func status(t *testing.T, pid int, field string) string {
	t.Helper()
	for line := range strings.Lines(read(t, fmt.Sprintf("/proc/%d/status", pid))) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no %s in the status of %d", field, pid)
	return ""
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}
