//go:build engines

package engines

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Both outputs stay apart, and a client that follows learns of the end.
func dockerLogs(t *testing.T, d docker) {
	id := d.detached(t, busybox, "sh", "-c", "echo one; echo two >&2; until test -e /go; do sleep 0.1; done; echo three")
	d.awaitLog(t, id, "two")
	s := d.pipes(t, "logs", "--follow", id)
	s.expect("one")
	d.must(t, "exec", id, "touch", "/go")
	s.wantEnd(0)
	s.expect("three")
	if diff := cmp.Diff(d.try(t, "logs", id), result{"one\nthree\n", "two\n", 0}, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("got -, want +:\n%s", diff)
	}
}

// Two clients, the first of which leaves by the detach keys: the container
// must go on, with the same input and output for the next.
func dockerAttach(t *testing.T, d docker) {
	id := d.detached(t, "--interactive", "--tty", busybox, "sh", "-c", "while read x; do echo got-$x; test $x != last || exit 8; done")
	first := d.terminal(t, "attach", id)
	first.ask("first", "got-first")
	if _, err := first.input.Write([]byte{'P' & 0x1f, 'Q' & 0x1f}); err != nil {
		t.Fatal(err)
	}
	first.awaitEnd() // With 0 or 1, as the client's version likes.
	second := d.terminal(t, "attach", id)
	second.ask("second", "got-second")
	second.send("last")
	second.wantEnd(8)
	t.Run("without a terminal", func(t *testing.T) { dockerAttachPipes(t, d) })
}

func dockerAttachPipes(t *testing.T, d docker) {
	id := d.detached(t, "--interactive", busybox, "sh", "-c", "while read x; do echo got-$x; test $x != last || exit 8; done")
	s := d.pipes(t, "attach", id)
	s.ask("first", "got-first")
	s.send("last")
	s.expect("got-last")
	s.wantEnd(8)
}

// The policy rests on the exit code: a shim that reports 0 ends it too early.
func dockerRestartPolicy(t *testing.T, d docker) {
	id := d.detached(t, "--restart=on-failure:2", busybox, "sh", "-c", "echo life; exit 3")
	d.awaitField(t, id, ".RestartCount", "2")
	d.awaitField(t, id, ".State.Status", "exited")
	if got := d.inspect(t, id, ".State.ExitCode"); got != "3" {
		t.Errorf("exit code: got %s, want 3", got)
	}
	if got := d.must(t, "logs", id); got != "life\nlife\nlife" {
		t.Errorf("logs: got %q, want three lives", got)
	}
}

// A container's files outlive its process, its pid and mounts do not.
func dockerRestart(t *testing.T, d docker) {
	id := d.detached(t, busybox, "sh", "-c", "echo x >>/count; trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done")
	d.awaitLog(t, id, "ready")
	first := d.inspect(t, id, ".State.Pid")
	d.must(t, "restart", id)
	if second := d.inspect(t, id, ".State.Pid"); second == first {
		t.Errorf("pid after restart: got %s again", second)
	}
	eventually(t, "lines in the kept file", "x\nx\n", func() string { return d.try(t, "exec", id, "cat", "/count").out })
	d.must(t, "stop", id)
	d.must(t, "start", id)
	d.try(t, "exec", id, "true").want(t, 0)
}

// Frozen by the kernel's own word, and thawed again with everything in place.
func dockerPause(t *testing.T, d docker) {
	id := d.detached(t, busybox, "sh", "-c", "trap 'exit 0' TERM; while :; do echo x; sleep 0.05; done")
	d.awaitLog(t, id, "x")
	d.must(t, "pause", id)
	if got := d.inspect(t, id, ".State.Status"); got != "paused" {
		t.Errorf("state: got %s, want paused", got)
	}
	if got := freezeState.read(t, id); got != frozen() {
		t.Errorf("%s: got %s, want %s", freezeState.v1, got, frozen())
	}
	d.try(t, "exec", id, "true").want(t, 1, "is paused")
	before := len(d.must(t, "logs", id))
	d.must(t, "unpause", id)
	if got := d.inspect(t, id, ".State.Status"); got != "running" {
		t.Errorf("state: got %s, want running", got)
	}
	eventually(t, "writing again", "true", func() string {
		if len(d.must(t, "logs", id)) > before+10 {
			return "true"
		}
		return "false"
	})
}

// Docker copies through the container's mounts, not through a process in it, so
// it must work on a stopped one.
func dockerCopy(t *testing.T, d docker) {
	id := d.idle(t)
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, []byte("from outside\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	d.must(t, "cp", from, id+":/inside")
	if got := d.must(t, "exec", id, "cat", "/inside"); got != "from outside" {
		t.Errorf("copied in: got %q, want %q", got, "from outside")
	}
	d.must(t, "exec", id, "sh", "-c", "echo from inside >/tmp/made || echo from inside >/made; mv /tmp/made /made; true")
	for _, state := range []string{"running", "stopped"} {
		t.Run(state, func(t *testing.T) { dockerCopyOut(t, d, id, to) })
		d.must(t, "stop", id)
	}
}

func dockerCopyOut(t *testing.T, d docker, id, to string) {
	t.Helper()
	d.must(t, "cp", id+":/made", to)
	text, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != "from inside\n" {
		t.Errorf("copied out: got %q, want %q", text, "from inside\n")
	}
	if err := os.Remove(to); err != nil {
		t.Fatal(err)
	}
}

// A health check is an exec that nobody asked for, again and again; only its
// exit code counts.
func dockerHealth(t *testing.T, d docker) {
	id := d.idle(t, "--health-cmd=test -e /well", "--health-interval=500ms", "--health-retries=1")
	d.awaitField(t, id, ".State.Health.Status", "unhealthy")
	d.must(t, "exec", id, "touch", "/well")
	d.awaitField(t, id, ".State.Health.Status", "healthy")
}

// event is what the test looks at of Docker's JSON.
type event struct {
	Action string
	Actor  struct{ Attributes map[string]string }
}

// The order is part of it: "die" before the code is known, or an exec that dies
// after its container, confuses whoever supervises by events.
func dockerEvents(t *testing.T, d docker) {
	since := d.must(t, "info", "--format", "{{.SystemTime}}")
	id := d.detached(t, busybox, "sh", "-c", "trap 'exit 0' TERM; until test -e /go; do sleep 0.1; done; exit 42")
	d.try(t, "exec", id, "sh", "-c", "exit 5").want(t, 5)
	d.must(t, "pause", id)
	d.must(t, "unpause", id)
	d.must(t, "exec", id, "touch", "/go")
	if got := d.must(t, "wait", id); got != "42" {
		t.Errorf("docker wait: got %s, want 42", got)
	}
	d.must(t, "rm", id)
	got := dockerEventsOf(t, d, id, since)
	want := []string{
		"create", "start", "exec_create", "exec_start", "exec_die 5", "pause", "unpause",
		"exec_create", "exec_start", "exec_die 0", "die 42", "destroy",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("got -, want +:\n%s", diff)
	}
}

// dockerEventsOf lists actions, with the exit code where one belongs.
func dockerEventsOf(t *testing.T, d docker, id, since string) []string {
	t.Helper()
	until := d.must(t, "info", "--format", "{{.SystemTime}}")
	out := d.must(t, "events", "--since", since, "--until", until, "--format", "{{json .}}",
		"--filter", "type=container", "--filter", "container="+id)
	var found []string
	for line := range strings.Lines(out) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		action, _, _ := strings.Cut(e.Action, ":") // exec_create: command
		found = append(found, strings.TrimSpace(action+" "+e.Actor.Attributes["exitCode"]))
	}
	return slices.DeleteFunc(found, func(s string) bool { return s == "attach" })
}
