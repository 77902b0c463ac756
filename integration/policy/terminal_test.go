//go:build kernel

package policy

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
	"github.com/sage-sandbox/sage/integration/victim/expect"
)

// console listens where a runtime sends the container's terminal to.
func console(t *testing.T) *net.UnixListener {
	t.Helper()
	l := unixListener(t)
	check(t, l.SetDeadline(time.Now().Add(harness.Timeout)))
	return l
}

// terminalOf takes the terminal.
func terminalOf(t *testing.T, l *net.UnixListener) *os.File {
	t.Helper()
	conn, err := l.AcceptUnix()
	check(t, err)
	defer conn.Close()
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 4096), oob)
	check(t, err)
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	check(t, err)
	fds, err := unix.ParseUnixRights(&messages[0])
	check(t, err)
	check(t, unix.SetNonblock(fds[0], true)) // So that reading can have an end.
	return fileOf(t, fds[0])
}

// onTerminal runs a program of the container on a terminal, and gives what it
// wrote there.
func onTerminal(t *testing.T, r *harness.Runtime, root string, args ...string) string {
	t.Helper()
	l := console(t)
	b := victimBundle(t, root, args...)
	b.Spec.Process.Terminal = true
	b.Write(t)
	id := harness.NewID()
	r.Must(t, "run", "--detach", "--console-socket", l.Addr().String(), "--bundle", b.Dir, id)
	master := terminalOf(t, l)
	check(t, master.SetReadDeadline(time.Now().Add(harness.Timeout)))
	var text []byte
	for buffer := make([]byte, 4096); ; {
		n, err := master.Read(buffer)
		text = append(text, buffer[:n]...)
		if err != nil {
			break // EIO, once nobody has it open on the other side
		}
	}
	r.Must(t, "delete", "--force", id)
	return strings.TrimSpace(string(text))
}

// TestTIOCSTIHighBits: a program types on the terminal that it was given, where
// whoever started the container reads it. The kernel looks at 32 bits of the
// request, a filter may see 64.
//
// Proves: S-103, S-106.
func TestTIOCSTIHighBits(t *testing.T) {
	root := victimRoot(t)
	attempts := []string{"TIOCSTI on stdin", "TIOCSTI on stdin, a bit above", "TIOCSTI on stdin, all bits above"}
	for _, attempt := range attempts {
		t.Run(attempt, func(t *testing.T) {
			// What is typed is echoed, so it comes beside the result.
			if got := onTerminal(t, runcPeer(t), root, expect.Program, "try", "init", attempt); !strings.HasSuffix(got, "ok") {
				t.Errorf("without a policy: got %q, want ok, or this proves nothing", got)
			}
			for _, p := range profiles {
				t.Run(string(p.name), func(t *testing.T) {
					r := harness.NewRuntimeWith(t, p.host)
					if got := onTerminal(t, r, root, expect.Program, "try", "init", attempt); got != "EPERM" {
						t.Errorf("got %q, want EPERM", got)
					}
				})
			}
		})
	}
}

// TestCVE2025_52565: the terminal is bound on /dev/console while somebody swaps
// what lies there, or /dev/pts, for a link to a file of /proc.
func TestCVE2025_52565(t *testing.T) {
	for _, swapped := range []string{"console", "pts"} {
		t.Run(swapped, func(t *testing.T) {
			hostMarker(t)
			root := harness.PrivateRoot(t)
			dev := filepath.Join(root, "dev")
			plain, link := filepath.Join(dev, swapped), filepath.Join(dev, "link")
			check(t, os.MkdirAll(filepath.Join(dev, "pts"), 0o755))
			writeText(t, filepath.Join(dev, "console"), "")
			check(t, os.Symlink("/proc/sys/kernel/core_pattern", link))
			defer swap(t, plain, link)()
			r := harness.NewRuntimeWith(t, harness.SoftAgent)
			raceOnTerminal(t, r, root)
		})
	}
}

func raceOnTerminal(t *testing.T, r *harness.Runtime, root string) {
	t.Helper()
	ran, failed := 0, map[string]int{}
	for range 30 {
		l := console(t)
		b := harness.NewBundle(t, func(s *specs.Spec) {
			s.Root.Path, s.Root.Readonly = root, false
			withoutMount(s, "/dev")
			s.Process.Terminal, s.Process.Args = true, []string{"sh", "-c", looker + "echo end"}
		})
		id := harness.NewID()
		res := r.Run(t, "run", "--detach", "--console-socket", l.Addr().String(), "--bundle", b.Dir, id)
		l.Close()
		if res.Code != 0 {
			failed[lastWords(res)]++
			continue
		}
		ran++
		wantNoProcOnConsole(t, pidOf(t, r, id))
		r.Must(t, "delete", "--force", id)
	}
	t.Logf("%d ran, refused: %v", ran, failed)
}

// wantNoProcOnConsole looks from outside, as the container's own view of /proc
// may be what was attacked.
func wantNoProcOnConsole(t *testing.T, pid int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "mountinfo"))
	if err != nil {
		return // It has ended.
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, " /dev/") && strings.Contains(line, " - proc ") {
			t.Errorf("a file of /proc is mounted in /dev: %s", line)
		}
	}
}
