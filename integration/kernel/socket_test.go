//go:build kernel

package kernel

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// receiver listens where a runtime sends a descriptor to.
func receiver(t *testing.T) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(harness.TempDir(t), "s"), Net: "unix"})
	check(t, err)
	t.Cleanup(func() { l.Close() })
	check(t, l.SetDeadline(time.Now().Add(harness.Timeout)))
	return l
}

// receive takes one descriptor and the text sent along.
func receive(t *testing.T, l *net.UnixListener) (*os.File, string) {
	t.Helper()
	conn, err := l.AcceptUnix()
	check(t, err)
	defer conn.Close()
	text, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := conn.ReadMsgUnix(text, oob)
	check(t, err)
	f := os.NewFile(uintptr(onlyFD(t, oob[:oobn])), "received")
	t.Cleanup(func() { f.Close() })
	return f, string(text[:n])
}

// onlyFD insists on one: a second descriptor would be a leak.
func onlyFD(t *testing.T, oob []byte) int {
	t.Helper()
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		t.Fatalf("got %d control messages, want 1: %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("got %d descriptors, want 1: %v", len(fds), err)
	}
	return fds[0]
}

const consoleScript = `echo "tty is $(tty)"; echo "size $(stty size)"; read l; echo "read $l"; echo done`

// terminal makes a process run consoleScript on a terminal of an odd size.
func terminal(p *specs.Process) {
	p.Terminal, p.ConsoleSize = true, &specs.Box{Height: 33, Width: 77}
	p.Args = []string{"sh", "-c", consoleScript}
}

func TestConsoleSocket(t *testing.T) {
	t.Run("run", func(t *testing.T) {
		bundle := harness.NewBundle(t, func(s *specs.Spec) { terminal(s.Process) })
		talk(t, harness.NewRuntime(t), "run", "--detach", "--bundle", bundle.Dir, harness.NewID())
	})
	t.Run("exec", func(t *testing.T) {
		r := harness.NewRuntime(t)
		process := harness.DefaultSpec(t).Process
		terminal(process)
		file := filepath.Join(harness.TempDir(t), "process.json")
		check(t, os.WriteFile(file, []byte(asJSON(t, process)), 0o600))
		talk(t, r, "exec", "--detach", "--process", file, sleeper(t, r))
	})
}

// talk receives the terminal and writes a line to it. The terminal echoes the
// line and turns every line's end into two characters.
func talk(t *testing.T, r *harness.Runtime, verb string, args ...string) {
	t.Helper()
	l := receiver(t)
	run := r.Start(t, append([]string{verb, "--console-socket", l.Addr().String()}, args...)...)
	console, _ := receive(t, l)
	exitsWith(t, run.Wait(t), 0)
	_, err := console.WriteString("a line\n")
	check(t, err)
	got := readUntil(console, "done\r\n")
	for _, want := range []string{"a line\r\n", "tty is /dev/pts/0\r\n", "size 33 77\r\n", "read a line\r\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("console: got %q, want %q in it", got, want)
		}
	}
}

// readUntil reads a terminal, whose end is an error and not an end of file. A
// watchdog ends the wait for words that never come.
func readUntil(f *os.File, last string) string {
	watchdog := time.AfterFunc(harness.Timeout, func() { f.Close() })
	defer watchdog.Stop()
	var all strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(all.String(), last) {
		n, err := f.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			break
		}
	}
	return all.String()
}

func TestPidfdSocket(t *testing.T) {
	r := harness.NewRuntime(t)
	bundle := harness.NewBundle(t, harness.Args("sleep", "1000"))
	id := harness.NewID()
	init := receivePidfd(t, r, "standard", "run", "--detach", "--bundle", bundle.Dir, id)
	if want := stateOf(t, r, id).Pid; init != want {
		t.Errorf("got a descriptor of pid %d, want the init, %d", init, want)
	}
	pidFile := filepath.Join(bundle.Dir, "exec-pid")
	other := receivePidfd(t, r, "setns", "exec", "--detach", "--pid-file", pidFile, id, "sleep", "1000")
	if got, want := fmt.Sprint(other), readText(t, pidFile); got != want {
		t.Errorf("got a descriptor of pid %s, want the exec's, %s", got, want)
	}
}

// receivePidfd returns the pid that the descriptor stands for. The word sent
// along says whose it is.
func receivePidfd(t *testing.T, r *harness.Runtime, word, verb string, args ...string) int {
	t.Helper()
	l := receiver(t)
	run := r.Start(t, append([]string{verb, "--pidfd-socket", l.Addr().String()}, args...)...)
	pidfd, text := receive(t, l)
	exitsWith(t, run.Wait(t), 0)
	if text != word {
		t.Errorf("%s: got the word %q, want %q", verb, text, word)
	}
	pid := -1
	for line := range strings.Lines(readText(t, fmt.Sprintf("/proc/self/fdinfo/%d", pidfd.Fd()))) {
		_, _ = fmt.Sscanf(line, "Pid: %d", &pid) // Other lines do not match.
	}
	return pid
}

// TestNotify walks through sd_notify: systemd's socket is outside, the payload
// writes READY=1 to one inside, and the runtime adds the pid as the host has it.
func TestNotify(t *testing.T) {
	r := harness.NewRuntime(t)
	address, heard := listen(t)
	r.Env = []string{"NOTIFY_SOCKET=" + address}
	probe := harness.Probe(t, "notify")
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		harness.WithProbes(t, s)
		s.Process.Args = []string{"sh", "-c", probe + " READY=1 && exec sleep 1000"}
	})
	id := harness.NewID()
	r.Must(t, "create", "--bundle", bundle.Dir, id)
	pid := stateOf(t, r, id).Pid
	exitsWith(t, r.Run(t, "start", id), 0)
	got, want := heard(), fmt.Sprintf("READY=1\nMAINPID=%d\n", pid)
	if !strings.HasPrefix(got, want) {
		t.Errorf("systemd was told %q, want %q", got, want)
	}
}

// listen stands in for systemd. What heard returns ends the listening.
func listen(t *testing.T) (address string, heard func() string) {
	t.Helper()
	host, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(harness.TempDir(t), "n"), Net: "unixgram"})
	check(t, err)
	t.Cleanup(func() { host.Close() })
	all := make(chan string, 1)
	go func() { all <- readDatagrams(host) }()
	return host.LocalAddr().String(), func() string {
		check(t, host.Close())
		return <-all
	}
}

// readDatagrams joins what arrives until the socket is closed. Reading goes on
// after the last fact: the runtime passes a descriptor as a barrier and waits
// until systemd has dropped it, which a read without room for it does.
func readDatagrams(c *net.UnixConn) string {
	var all strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return all.String()
		}
		all.WriteString(strings.TrimSpace(string(buf[:n])) + "\n")
	}
}
