//go:build engines

package engines

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ctr gives 1 for whatever could not start, so the message has to tell.
func ctrExitCodes(t *testing.T, c ctr) {
	for _, k := range exitCases {
		t.Run(k.name, func(t *testing.T) {
			code := k.code
			if code == 126 || code == 127 {
				code = 1
			}
			c.run(t, k.args...).want(t, code, k.phrases...)
		})
	}
}

func ctrStdin(t *testing.T, c ctr) {
	text := strings.Repeat("0123456789abcde\n", 1<<16)
	r := c.feed(t, text, c.runArgs([]string{"--rm"}, newID(), "cat")...)
	if r.code != 0 || r.out != text {
		t.Errorf("got exit %d and %d bytes, want 0 and the same %d bytes; %s", r.code, len(r.out), len(text), r.errs)
	}
}

func ctrTerminal(t *testing.T, c ctr) {
	s := c.terminal(t, c.runArgs([]string{"--rm", "--tty"}, newID(), "sh")...)
	useTerminal(s)
	s.wantEnd(7)
}

var ctrExecCases = []struct {
	name  string
	flags []string
	args  []string
	code  int
	out   string
	says  string
}{
	{"zero", nil, []string{"true"}, 0, "", ""},
	{"own code", nil, []string{"sh", "-c", "exit 5"}, 5, "", ""},
	{"user", []string{"--user=1000:1001"}, []string{"sh", "-c", "id -u; id -g"}, 0, "1000\n1001\n", ""},
	{"environment", nil, []string{"env", "A=b c", "sh", "-c", "echo $A"}, 0, "b c\n", ""},
	{"work folder", []string{"--cwd=/etc"}, []string{"pwd"}, 0, "/etc\n", ""},
	{"missing program", nil, []string{"nosuch"}, 1, "", `exec: "nosuch": executable file not found in $PATH`},
	{"not executable", nil, []string{"/etc/passwd"}, 1, "", `exec: "/etc/passwd": permission denied`},
}

func ctrExec(t *testing.T, c ctr) {
	id := c.idle(t)
	for _, k := range ctrExecCases {
		t.Run(k.name, func(t *testing.T) {
			r := c.exec(t, k.flags, id, k.args...)
			r.want(t, k.code, k.says)
			if diff := cmp.Diff(r.out, k.out); diff != "" {
				t.Errorf("got -, want +:\n%s", diff)
			}
		})
	}
}

func ctrExecTerminal(t *testing.T, c ctr) {
	id := c.idle(t)
	s := c.terminal(t, c.execArgs([]string{"--tty"}, id, "sh")...)
	useTerminal(s)
	s.wantEnd(7)
	c.awaitStatus(t, id, "RUNNING")
}

// As with Docker, but ctr reads the exec's fifos itself and would wait for them.
func ctrInitDiesDuringExec(t *testing.T, c ctr) {
	t.Run("killed", func(t *testing.T) {
		id := c.idle(t)
		s := c.pipes(t, c.execArgs(nil, id, "sh", "-c", "echo in-$((1+1)); sleep 1000")...)
		s.expect("in-2")
		c.must(t, "tasks", "kill", "--signal=KILL", id)
		s.wantEnd(137)
		c.awaitStatus(t, id, "STOPPED")
	})
	t.Run("by itself", func(t *testing.T) {
		id := c.detached(t, nil, "sh", "-c", "until test -e /go; do sleep 0.1; done; exit 6")
		s := c.pipes(t, c.execArgs(nil, id, "sh", "-c", "sleep 1000 & echo in-$((1+1)); touch /go; wait")...)
		s.expect("in-2")
		s.wantEnd(137)
		c.awaitStatus(t, id, "STOPPED")
		c.deleted(t, id, 6)
	})
}

// The file is written by the shim, and stays after the container. Nothing goes
// to stderr: containerd's copier closes the file that both share at the end of
// the first, and what the other one still has is lost.
func ctrLogs(t *testing.T, c ctr) {
	file := t.TempDir() + "/log"
	id := c.detached(t, []string{"--log-uri=file://" + file}, "sh", "-c", "echo one; echo two; exit 4")
	c.awaitStatus(t, id, "STOPPED")
	eventually(t, "log file", "one\ntwo\n", func() string { return contentOf(file) })
	c.deleted(t, id, 4)
}

// The container writes only when somebody listens: its fifos keep little.
func ctrAttach(t *testing.T, c ctr) {
	id := c.detached(t, nil, "sh", "-c", "until test -e /go; do sleep 0.1; done; echo attached-$((1+1)); exit 8")
	s := c.pipes(t, "tasks", "attach", id)
	c.exec(t, nil, id, "touch", "/go").want(t, 0)
	s.expect("attached-2")
	s.wantEnd(8)
}
