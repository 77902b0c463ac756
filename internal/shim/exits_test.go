package shim

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	eventsapi "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/sage-sandbox/sage/internal/sampler"
)

type published []events.Event

func (p *published) Publish(_ context.Context, _ string, event events.Event) error {
	*p = append(*p, event)
	return nil
}

func (*published) Close() error { return nil }

// newContainer is one that a shim was asked to create: its state directory, and
// what became known to containerd.
func newContainer(t *testing.T, files map[string]string) (e *exits, dir string, sent *published) {
	t.Helper()
	root := t.TempDir()
	dir = filepath.Join(root, "ns1", "c1")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	sent = &published{}
	e = newExits(sent)
	e.created(namespaces.WithNamespace(t.Context(), "ns1"), root, "c1", nil)
	return e, dir, sent
}

func (p *published) kinds() string {
	var kinds []string
	for _, event := range *p {
		kinds = append(kinds, fmt.Sprintf("%T", event))
	}
	return strings.ReplaceAll(strings.Join(kinds, " "), "*events.", "")
}

// TestOutOfMemory: containerd learns of a kill for want of memory before it
// learns of the end, whoever saw it, and once after that.
func TestOutOfMemory(t *testing.T) {
	exit := &eventsapi.TaskExit{ContainerID: "c1", ID: "c1", Pid: 7, ExitStatus: 137}
	oom := &eventsapi.TaskOOM{ContainerID: "c1"}
	for name, tt := range map[string]struct {
		kills  int
		events []events.Event
		want   string
	}{
		"seen by nobody else": {1, []events.Event{exit}, "TaskOOM TaskExit"},
		"seen before":         {1, []events.Event{oom, exit}, "TaskOOM TaskExit"},
		"twice before":        {2, []events.Event{oom, oom, exit}, "TaskOOM TaskOOM TaskExit"},
		"seen too late":       {1, []events.Event{exit, oom}, "TaskOOM TaskExit"},
		"none":                {0, []events.Event{exit}, "TaskExit"},
	} {
		t.Run(name, func(t *testing.T) {
			cgroup := t.TempDir()
			write(t, filepath.Join(cgroup, "memory.oom_control"), fmt.Sprintf("under_oom 0\noom_kill %d\n", tt.kills))
			e, _, sent := newContainer(t, map[string]string{"state.json": `{"cgroup_paths":{"memory":"` + cgroup + `"}}`})
			for _, event := range tt.events {
				if err := e.Publish(t.Context(), "/tasks/x", event); err != nil {
					t.Fatal(err)
				}
			}
			if got := sent.kinds(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestWatch: a container that must be watched is, before its program begins, and
// one whose plan cannot be carried out does not begin.
//
// Proves: S-152.
func TestWatch(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	init, err := sampler.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	e, dir, sent := newContainer(t, nil)
	plan := sampler.Plan{ID: "c1", Init: init, Seconds: 1}
	if err := plan.Save(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := e.watch("c1"); err != nil {
		t.Fatal(err)
	}
	if claimed, err := sampler.Claimed(dir); err != nil || !claimed {
		t.Errorf("got claimed %v, %v, want the command to be told", claimed, err)
	}
	_ = cmd.Wait()
	if state := cmd.ProcessState.String(); state != "signal: killed" {
		t.Errorf("got %s, want it killed when its time is up", state)
	}
	if _, err := e.watch("c1"); err == nil {
		t.Error("watch of a process that is gone: got no error")
	}
	write(t, filepath.Join(dir, "sage-watch.json"), "{")
	if _, err := e.watch("c1"); err == nil {
		t.Error("a plan that is cut short: got no error")
	}
	if _, err := e.watch("other"); err != nil || len(*sent) != 0 {
		t.Errorf("another's container: got %v and %v", err, *sent)
	}
}

// TestTold: a delete waits until containerd was told of the end.
func TestTold(t *testing.T) {
	e, _, sent := newContainer(t, nil)
	e.told(t.Context(), "c1") // never began: at once
	if _, err := e.watch("c1"); err != nil {
		t.Fatal(err)
	}
	done := make(chan int)
	go func() {
		e.told(t.Context(), "c1")
		done <- len(*sent)
	}()
	time.Sleep(20 * time.Millisecond) // in which it would have returned
	if err := e.Publish(t.Context(), "/tasks/exit", &eventsapi.TaskExit{ContainerID: "c1", ID: "c1"}); err != nil {
		t.Fatal(err)
	}
	if n := <-done; n != 1 {
		t.Errorf("got %d events by then, want the end", n)
	}
}

// TestExits: the exit of a container gets into its audit file once, that of an
// exec does not, and every event gets to containerd.
func TestExits(t *testing.T) {
	root := t.TempDir()
	dir, file := filepath.Join(root, "ns1", "c1"), filepath.Join(root, "c1.jsonl")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "sage.json"), `{"id":"c1","audit":"`+file+`"}`)
	var sent published
	e := newExits(&sent)
	ctx := namespaces.WithNamespace(t.Context(), "ns1")
	e.created(ctx, root, "c1", nil)
	for _, event := range []*eventsapi.TaskExit{
		{ContainerID: "c1", ID: "exec1", ExitStatus: 1},
		{ContainerID: "other", ID: "other", ExitStatus: 2},
		{ContainerID: "c1", ID: "c1", Pid: 7, ExitStatus: 137},
		{ContainerID: "c1", ID: "c1", Pid: 7, ExitStatus: 137},
	} {
		if err := e.Publish(ctx, "/tasks/exit", event); err != nil {
			t.Fatal(err)
		}
	}
	if len(sent) != 4 {
		t.Errorf("got %d events, want all 4 passed on", len(sent))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(data); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"reason":"signaled","status":137,"pid":7`) {
		t.Errorf("got %q, want one line with the signal", got)
	}
}
