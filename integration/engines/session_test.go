//go:build engines

package engines

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/console"
)

// session is a client command that a test talks with while it runs: on a
// terminal, or on pipes.
type session struct {
	t     *testing.T
	cmd   *exec.Cmd
	input io.WriteCloser
	said  transcript
	pty   console.Console // nil on pipes
	ended chan struct{}
	code  int
}

// transcript collects output while others look at it.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// pipes starts a command with a pipe as stdin and both outputs in one transcript.
func (c client) pipes(t *testing.T, args ...string) *session {
	t.Helper()
	s := &session{t: t, cmd: c.command(args...), ended: make(chan struct{})}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.input = in
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	s.start()
	return s
}

// terminal starts a command on a pseudo terminal of 80 by 24, as a user's
// shell would: leader of a session whose controlling terminal it is. Without
// that the kernel would not tell the client of a changed window size.
func (c client) terminal(t *testing.T, args ...string) *session {
	t.Helper()
	master, slavePath, err := console.NewPty()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	slave, err := os.OpenFile(slavePath, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	s := &session{t: t, cmd: c.command(args...), input: master, pty: master, ended: make(chan struct{})}
	s.resize(80, 24)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.Env = append(s.cmd.Env, "TERM=xterm")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s.start()
	go func() { _, _ = io.Copy(&s.said, master) }()
	return s
}

func (s *session) start() {
	s.t.Helper()
	s.cmd.WaitDelay = time.Second
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		s.code = exitCode(s.cmd.Wait())
		close(s.ended)
	}()
	s.t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
	})
}

// send types a line.
func (s *session) send(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.input, line+"\n"); err != nil {
		s.t.Fatalf("type %q: %v; so far: %q", line, err, s.said.String())
	}
}

// expect waits until the command has said the phrase.
func (s *session) expect(phrase string) {
	s.t.Helper()
	if !s.awaitPhrase(30*time.Second, phrase) {
		s.t.Fatalf("waiting for %q; so far: %q", phrase, s.said.String())
	}
}

// ask repeats a line until the phrase comes, for what takes effect a moment later.
func (s *session) ask(line, phrase string) {
	s.t.Helper()
	s.askAfter(func() {}, line, phrase)
}

// askAfter does something before it asks, each time anew.
func (s *session) askAfter(before func(), line, phrase string) {
	s.t.Helper()
	for range 30 {
		before()
		s.send(line)
		if s.awaitPhrase(time.Second, phrase) {
			return
		}
		if s.over() {
			break
		}
	}
	s.t.Fatalf("asked %q for %q; so far: %q", line, phrase, s.said.String())
}

// askSize changes the window and waits until the inside has heard of it. The
// size goes over a neighbour, for the kernel does not tell of no change, and a
// client that has only just started may have missed the first.
func (s *session) askSize(columns, rows uint16) {
	s.t.Helper()
	change := func() {
		s.resize(columns+1, rows)
		s.resize(columns, rows)
	}
	s.askAfter(change, "echo now $(stty size)", fmt.Sprintf("now %d %d", rows, columns))
}

// awaitPhrase waits for the phrase, but not for a command that has ended.
func (s *session) awaitPhrase(limit time.Duration, phrase string) bool {
	said := func() bool { return strings.Contains(s.said.String(), phrase) }
	poll(limit, func() bool { return said() || s.over() })
	// The terminal may still hold what the command said last.
	return poll(time.Second/2, said)
}

func (s *session) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

func (s *session) resize(columns, rows uint16) {
	s.t.Helper()
	if err := s.pty.Resize(console.WinSize{Width: columns, Height: rows}); err != nil {
		s.t.Fatal(err)
	}
}

// wantEnd waits for the end of the command and compares its exit code.
func (s *session) wantEnd(code int) {
	s.t.Helper()
	s.awaitEnd()
	if s.code != code {
		s.t.Errorf("exit code: got %d, want %d; output: %q", s.code, code, s.said.String())
	}
}

func (s *session) awaitEnd() {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(hang):
		s.t.Fatalf("%s does not end; so far: %q", strings.Join(s.cmd.Args, " "), s.said.String())
	}
}
