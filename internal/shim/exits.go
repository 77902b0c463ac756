package shim

import (
	"context"
	"path/filepath"
	"sync"

	eventsapi "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/log"

	"github.com/sage-sandbox/sage/internal/audit"
)

// exits writes the end of each container to its audit file, on the way of the
// event to containerd: with an engine, nobody but the shim sees the status.
type exits struct {
	containerdshim.Publisher

	mu   sync.Mutex
	dirs map[string]string // state directories of the containers, by id
}

func newExits(publisher containerdshim.Publisher) *exits {
	return &exits{Publisher: publisher, dirs: map[string]string{}}
}

// Publish passes the event on whatever becomes of the audit: containerd waits
// for it.
func (e *exits) Publish(ctx context.Context, topic string, event events.Event) error {
	if exit, ok := event.(*eventsapi.TaskExit); ok && exit.GetID() == exit.GetContainerID() {
		if err := audit.Exited(e.take(exit.GetContainerID()), int(exit.GetPid()), int(exit.GetExitStatus())); err != nil {
			log.G(ctx).WithError(err).Warn("audit the exit")
		}
	}
	return e.Publisher.Publish(ctx, topic, event)
}

// created remembers where the runtime keeps the state of container id.
func (e *exits) created(ctx context.Context, root, id string) {
	namespace, _ := namespaces.Namespace(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dirs[id] = filepath.Join(root, namespace, id)
}

func (e *exits) take(id string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	dir := e.dirs[id]
	delete(e.dirs, id)
	return dir
}
