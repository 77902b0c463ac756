//go:build engines

package engines

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// execCases are processes that join a container. Those that cannot start must
// say so in the words of a failed init, and leave the container running.
var execCases = []struct {
	name  string
	flags []string
	args  []string
	code  int
	out   string
	says  string // a phrase on either output, for what fails
}{
	{"zero", nil, []string{"true"}, 0, "", ""},
	{"own code", nil, []string{"sh", "-c", "exit 5"}, 5, "", ""},
	{"user", []string{"--user=1000:1001"}, []string{"sh", "-c", "id -u; id -g"}, 0, "1000\n1001\n", ""},
	{"environment", []string{"--env=A=b c", "--env=B=2"}, []string{"sh", "-c", "echo $A$B"}, 0, "b c2\n", ""},
	{"work folder", []string{"--workdir=/etc"}, []string{"pwd"}, 0, "/etc\n", ""},
	{"privileged", []string{"--privileged"}, []string{"grep", "-c", "CapEff:.*000001ff", "/proc/self/status"}, 0, "1\n", ""},
	{"sees init", nil, []string{"sh", "-c", "tr '\\0' ' ' </proc/1/cmdline | cut -c1-5"}, 0, "sh -c\n", ""},
	{"missing program", nil, []string{"nosuch"}, 127, "", `exec: "nosuch": executable file not found in $PATH`},
	{"not executable", nil, []string{"/etc/passwd"}, 126, "", `exec: "/etc/passwd": permission denied`},
	{"missing work folder", []string{"--workdir=/no/such"}, []string{"pwd"}, 127, "", "no such file or directory"},
}

func dockerExec(t *testing.T, d docker) {
	id := d.idle(t)
	for _, c := range execCases {
		t.Run(c.name, func(t *testing.T) {
			r := d.try(t, append(append([]string{"exec"}, c.flags...), append([]string{id}, c.args...)...)...)
			r.want(t, c.code, c.says)
			if diff := cmp.Diff(r.out, c.out); diff != "" && c.says == "" {
				t.Errorf("got -, want +:\n%s", diff)
			}
		})
	}
	t.Run("stdin", func(t *testing.T) {
		text := strings.Repeat("line\n", 10000)
		if r := d.feed(t, text, "exec", "--interactive", id, "cat"); r.out != text || r.code != 0 {
			t.Errorf("got exit %d and %d bytes, want 0 and %d", r.code, len(r.out), len(text))
		}
	})
}

// The end of a shell that was entered is not the end of the container.
func dockerExecTerminal(t *testing.T, d docker) {
	id := d.idle(t)
	s := d.terminal(t, "exec", "--interactive", "--tty", id, "sh")
	useTerminal(s)
	s.wantEnd(7)
	if state := d.inspect(t, id, ".State.Running"); state != "true" {
		t.Errorf("running after the exec: got %s, want true", state)
	}
}

// Nobody waits for a detached exec: the shim has to reap it.
func dockerExecDetached(t *testing.T, d docker) {
	id := d.idle(t)
	d.must(t, "exec", "--detach", id, "sh", "-c", "echo done >/done")
	eventually(t, "file of the detached exec", "done\n", func() string {
		return d.try(t, "exec", id, "cat", "/done").out
	})
}

// The end of init takes every process of the container along. The client of
// an exec must hear of it: engines have hung here.
func dockerInitDiesDuringExec(t *testing.T, d docker) {
	t.Run("killed", func(t *testing.T) {
		id := d.idle(t)
		s := startedExec(t, d, id)
		d.must(t, "kill", id)
		s.wantEnd(137)
		d.awaitField(t, id, ".State.Status", "exited")
	})
	t.Run("by itself", func(t *testing.T) {
		id := d.detached(t, busybox, "sh", "-c", "until test -e /go; do sleep 0.1; done; exit 6")
		s := startedExec(t, d, id)
		d.must(t, "exec", id, "touch", "/go")
		s.wantEnd(137)
		d.awaitField(t, id, ".State.ExitCode", "6")
	})
	t.Run("with a child that keeps the output open", func(t *testing.T) {
		id := d.detached(t, busybox, "sh", "-c", "until test -e /go; do sleep 0.1; done; exit 6")
		s := d.pipes(t, "exec", id, "sh", "-c", "sleep 1000 & echo in-$((1+1)); touch /go; wait")
		s.expect("in-2")
		s.wantEnd(137)
	})
}

func startedExec(t *testing.T, d docker, id string) *session {
	t.Helper()
	s := d.pipes(t, "exec", id, "sh", "-c", "echo in-$((1+1)); sleep 1000")
	s.expect("in-2")
	return s
}

// Docker asks the runtime for pids and the host's ps for the rest, so the pids
// have to be the host's.
func dockerTop(t *testing.T, d docker) {
	id := d.idle(t)
	d.must(t, "exec", "--detach", id, "sleep", "4321")
	eventually(t, "docker top", "true", func() string {
		out := d.must(t, "top", id)
		if strings.Contains(out, "trap 'exit 0'") && strings.Contains(out, "sleep 4321") {
			return "true"
		}
		return out
	})
}

// The test shows that the handler's code, and not the signal, is what Docker reports.
func dockerStopHandler(t *testing.T, d docker) {
	for _, c := range []struct{ name, action, code string }{
		{"own code", "exit 9", "9"},
		{"the usual code", "exit 143", "143"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := d.detached(t, busybox, "sh", "-c", "trap 'echo caught; "+c.action+"' TERM; echo ready; while :; do sleep 0.1; done")
			d.awaitLog(t, id, "ready")
			d.must(t, "stop", "--timeout=30", id)
			if got := d.inspect(t, id, ".State.ExitCode"); got != c.code {
				t.Errorf("exit code: got %s, want %s", got, c.code)
			}
			d.awaitLog(t, id, "caught")
		})
	}
}

// Init without a handler does not get TERM at all; Docker kills it in the end.
func dockerStopForced(t *testing.T, d docker) {
	id := d.detached(t, busybox, "sleep", "1000")
	begin := time.Now()
	d.must(t, "stop", "--timeout=1", id)
	if took := time.Since(begin); took < time.Second || took > 15*time.Second {
		t.Errorf("stop took %v, want a little more than a second", took)
	}
	if got := d.inspect(t, id, ".State.ExitCode"); got != "137" {
		t.Errorf("exit code: got %s, want 137", got)
	}
}

func dockerStopSignal(t *testing.T, d docker) {
	id := d.detached(t, "--stop-signal=USR2", busybox, "sh", "-c",
		"trap 'exit 12' USR2; echo ready; while :; do sleep 0.1; done")
	d.awaitLog(t, id, "ready")
	d.must(t, "stop", "--timeout=30", id)
	if got := d.inspect(t, id, ".State.ExitCode"); got != "12" {
		t.Errorf("exit code: got %s, want 12", got)
	}
}

// A signal that init handles is no end; the kernel's KILL is one, and a second
// has nobody to go to.
func dockerKill(t *testing.T, d docker) {
	id := d.detached(t, busybox, "sh", "-c", "trap 'echo heard' USR1; echo ready; while :; do sleep 0.1; done")
	d.awaitLog(t, id, "ready")
	d.must(t, "kill", "--signal=USR1", id)
	d.awaitLog(t, id, "heard")
	d.must(t, "kill", id)
	d.awaitField(t, id, ".State.Status", "exited")
	if got := d.inspect(t, id, ".State.ExitCode"); got != "137" {
		t.Errorf("exit code: got %s, want 137", got)
	}
	d.try(t, "kill", id).want(t, 1, "is not running")
}
