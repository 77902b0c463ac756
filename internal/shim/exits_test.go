package shim

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	eventsapi "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/containerd/v2/pkg/namespaces"
)

type published []events.Event

func (p *published) Publish(_ context.Context, _ string, event events.Event) error {
	*p = append(*p, event)
	return nil
}

func (*published) Close() error { return nil }

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
	e.created(ctx, root, "c1")
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
