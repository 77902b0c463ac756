//go:build engines

package engines

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func contentOf(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// deleted removes a stopped task. ctr says the task's code, but does not end
// with it.
func (c ctr) deleted(t *testing.T, id string, code int) {
	t.Helper()
	c.try(t, "tasks", "delete", id).want(t, 0, fmt.Sprintf("task %s exit with non-zero exit code %d", id, code))
}

func ctrPs(t *testing.T, c ctr) {
	id := c.idle(t)
	out := c.must(t, "tasks", "ps", id)
	lines := strings.Split(out, "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "PID") {
		t.Errorf("ps: got %q, want a heading and at least one process", out)
	}
	if info := c.must(t, "containers", "info", id); !strings.Contains(info, `"runtime"`) && !strings.Contains(info, `"Runtime"`) {
		t.Errorf("info: got %q, want it to name the runtime", info)
	}
}

func ctrPause(t *testing.T, c ctr) {
	id := c.idle(t)
	c.must(t, "tasks", "pause", id)
	c.awaitStatus(t, id, "PAUSED")
	if got := freezeState.read(t, id); got != frozen() {
		t.Errorf("%s: got %s, want %s", freezeState.v1, got, frozen())
	}
	c.must(t, "tasks", "resume", id)
	c.awaitStatus(t, id, "RUNNING")
	c.exec(t, nil, id, "true").want(t, 0)
}

// The metrics are the shim's own reading of the cgroup, in protobuf.
func ctrMetrics(t *testing.T, c ctr) {
	id := c.detached(t, []string{"--memory-limit=67108864"}, "sleep", "1000")
	out := c.must(t, "tasks", "metrics", "--format=json", id)
	if !json.Valid([]byte(out)) {
		t.Fatalf("metrics: got %q, want JSON", out)
	}
	for _, part := range []string{"67108864", `"memory"`, `"pids"`, `"cpu"`} {
		if !strings.Contains(strings.ToLower(out), part) {
			t.Errorf("metrics: got %q, want it to hold %s", out, part)
		}
	}
	if got := memoryLimit.read(t, id); got != "67108864" {
		t.Errorf("memory limit: got %s, want 67108864", got)
	}
}

// containerd matches on the words of "kill": a signal that comes too late must
// not look like a failure of the runtime.
func ctrKill(t *testing.T, c ctr) {
	id := c.detached(t, nil, "sh", "-c", "trap 'exit 9' USR1; touch /ready; while :; do sleep 0.1; done")
	eventually(t, "handler in place", "0", func() string {
		if c.exec(t, nil, id, "test", "-e", "/ready").code == 0 {
			return "0"
		}
		return "1"
	})
	c.try(t, "tasks", "delete", id).want(t, 1, "must be stopped before deletion")
	c.must(t, "tasks", "kill", "--signal=USR1", id)
	c.awaitStatus(t, id, "STOPPED")
	c.try(t, "tasks", "kill", id).want(t, 1, "process already finished")
	c.deleted(t, id, 9)
	c.awaitStatus(t, id, "none")
	c.must(t, "containers", "delete", id)
}

// With the host's process namespace the death of init does not end the others
// by itself: the runtime has to find them by the cgroup.
func ctrKillAll(t *testing.T, c ctr) {
	id := c.detached(t, []string{"--with-ns=pid:/proc/1/ns/pid"}, "sh", "-c", "sleep 7654 & sleep 7654")
	c.must(t, "tasks", "kill", "--all", "--signal=KILL", id)
	c.awaitStatus(t, id, "STOPPED")
	c.deleted(t, id, 137)
	eventually(t, "processes left", "", func() string { return strings.Join(namesAny(processes(), []string{"sleep 7654"}), "; ") })
}

func ctrEvents(t *testing.T, c ctr) {
	s := c.pipes(t, "events")
	// There is no sign that the subscription stands but an event of our own.
	s.awaitSubscription(c)
	id := c.detached(t, nil, "sh", "-c", "exit 42")
	c.awaitStatus(t, id, "STOPPED")
	c.deleted(t, id, 42)
	// Not /tasks/delete: containerd's shim task code, which sage's shim uses too,
	// ends without waiting for that last one, and now and then it is lost.
	for _, topic := range []string{"/tasks/create", "/tasks/start", "/tasks/exit"} {
		s.expectLine(topic, `"`+id+`"`)
	}
	s.expectLine("/tasks/exit", `"`+id+`"`, `"exit_status":42`)
}

// awaitSubscription makes events until one is seen.
func (s *session) awaitSubscription(c ctr) {
	s.t.Helper()
	label := func() bool {
		c.quietly("images", "label", busybox, "ring.tick="+newID())
		return poll(500*time.Millisecond, func() bool { return strings.Contains(s.said.String(), "/images/update") })
	}
	if !poll(30*time.Second, label) {
		s.t.Fatalf("no event arrives; so far: %q", s.said.String())
	}
}

// expectLine waits for one line that holds all the parts.
func (s *session) expectLine(parts ...string) {
	s.t.Helper()
	if !poll(30*time.Second, func() bool { return hasLine(s.said.String(), parts) }) {
		s.t.Fatalf("waiting for a line with %q; so far: %q", parts, s.said.String())
	}
}

func hasLine(text string, parts []string) bool {
	for line := range strings.Lines(text) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			return true
		}
	}
	return false
}

// Here the event itself is seen, of which Docker makes its OOMKilled.
func ctrOutOfMemory(t *testing.T, c ctr) {
	s := c.pipes(t, "events")
	s.awaitSubscription(c)
	id := c.detached(t, []string{"--memory-limit=16777216"}, "sh", "-c", eatMemory)
	c.awaitStatus(t, id, "STOPPED")
	s.expectLine("/tasks/oom", `"`+id+`"`)
	s.expectLine("/tasks/exit", `"`+id+`"`, `"exit_status":137`)
	c.deleted(t, id, 137)
}

// A container outlives its task and can have another one, with the same id.
func ctrSecondTask(t *testing.T, c ctr) {
	id := c.detached(t, nil, "sh", "-c", "exit 3")
	for range 2 {
		c.awaitStatus(t, id, "STOPPED")
		c.deleted(t, id, 3)
		c.must(t, "tasks", "start", "--detach", id)
	}
	c.awaitStatus(t, id, "STOPPED")
}

// The image's files stay root's in the container, since containerd maps the
// mount or copies the tree.
func ctrUserNamespace(t *testing.T, c ctr) {
	maps := []string{"--rm", "--uidmap=0:100000:65536", "--gidmap=0:100000:65536"}
	r := c.try(t, c.runArgs(maps, newID(), "sh", "-c", "id -u; tr -s ' ' </proc/self/uid_map; touch /made && stat -c %u /made")...)
	r.want(t, 0)
	if want := "0\n 0 100000 65536\n0\n"; r.out != want {
		t.Errorf("got %q, want %q", r.out, want)
	}
}

// A plain folder in the place of an image's snapshot.
func ctrRootFolder(t *testing.T, c ctr) {
	root := t.TempDir()
	if r, err := finish(theRing.program("tar", "-xf", rootfsTar(), "-C", root)); r.failed(err) != nil {
		t.Fatal(r.failed(err))
	}
	args := append([]string{"run", "--rm", "--rootfs", "--read-only"}, c.way...)
	c.try(t, append(args, root, newID(), "/bin/sh", "-c", "touch /x; exit 5")...).want(t, 5, "Read-only file system")
}

func ctrFifty(t *testing.T, c ctr) {
	ids := make([]string, 50)
	for i := range ids {
		ids[i] = newID()
	}
	atOnce(len(ids), func(i int) error {
		r, err := finish(c.command(c.runArgs([]string{"--detach"}, ids[i], "sleep", "1000")...))
		return r.failed(err)
	}).want(t, "start")
	for _, id := range ids {
		c.awaitStatus(t, id, "RUNNING")
	}
	atOnce(len(ids), func(i int) error {
		// The code of a deleted task is that of its process, which was killed.
		_, err := finish(c.command("tasks", "delete", "--force", ids[i]))
		return err
	}).want(t, "end")
	atOnce(len(ids), func(i int) error {
		r, err := finish(c.command("containers", "delete", ids[i]))
		return r.failed(err)
	}).want(t, "remove")
	wantNothingOf(t, ids)
}
