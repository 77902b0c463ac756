package shim

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	eventsapi "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	containerdruntime "github.com/containerd/containerd/v2/core/runtime"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/log"

	"github.com/sage-sandbox/sage/internal/audit"
	"github.com/sage-sandbox/sage/internal/sampler"
	"github.com/sage-sandbox/sage/internal/state"
)

// exits stands on the way of events to containerd. Before it tells of the end of
// a container, nothing of that runs any more, the reason is written down, and
// containerd has been told if the kernel killed for want of memory: nobody but
// the shim sees the status, and nobody looks at the cgroup later.
type exits struct {
	containerdshim.Publisher

	mu         sync.Mutex
	containers map[string]*container // by the container's id
}

// container is one container of this shim.
type container struct {
	dir string // the runtime's state of it
	// output is what stands before the engine's FIFOs, nil where nothing does.
	output *output
	oom    bool // containerd was told of a kill for want of memory
	ended  bool
	// started says that its program began, so that its end will be told.
	started bool
	// told is closed once containerd was told of the end.
	told chan struct{}
}

func newExits(publisher containerdshim.Publisher) *exits {
	return &exits{Publisher: publisher, containers: map[string]*container{}}
}

// Publish passes the event on whatever becomes of the rest: containerd waits for
// it.
func (e *exits) Publish(ctx context.Context, topic string, event events.Event) error {
	switch event := event.(type) {
	case *eventsapi.TaskCreate:
		if t := e.container(event.GetContainerID()); t != nil {
			t.output.restoreEvent(event)
		}
	case *eventsapi.TaskOOM:
		if t := e.container(event.GetContainerID()); t != nil && !e.tellOOM(t) {
			return nil // told already, and the container is over
		}
	case *eventsapi.TaskExit:
		if t := e.end(event); t != nil {
			e.settle(ctx, t, event)
			defer close(t.told)
		}
	}
	return e.Publisher.Publish(ctx, topic, event)
}

// settlePatience bounds how long an engine that does not read can keep the events
// of a pod waiting.
const settlePatience = 2 * time.Second

// settle is for the end of a container's init.
func (e *exits) settle(ctx context.Context, t *container, exit *eventsapi.TaskExit) {
	dirs, _ := sampler.Cgroups(t.dir) // none, where the runtime never came so far
	// Docker takes an end to be of memory only if it was told so before. Under
	// cgroup v1 containerd's own watcher is another thread, that comes too late.
	if sampler.OOMKilled(dirs) && e.tellOOM(t) {
		err := e.Publisher.Publish(ctx, containerdruntime.TaskOOMEventTopic, &eventsapi.TaskOOM{ContainerID: exit.GetContainerID()})
		if err != nil {
			log.G(ctx).WithError(err).Warn("tell of the kill for want of memory")
		}
	}
	if _, err := os.Lstat(filepath.Join(t.dir, state.Name)); err != nil {
		return // under no policy: the rest is as with runc
	}
	if err := sampler.Clear(dirs); err != nil {
		log.G(ctx).WithError(err).Error("clean up")
	}
	// What it wrote last is counted, or its end would be told without the reason.
	t.output.drained(settlePatience)
	end := sampler.Settle(t.dir, dirs, int(exit.GetExitStatus()))
	if err := state.SaveEnding(t.dir, end); err != nil {
		log.G(ctx).WithError(err).Warn("write down the end")
	}
	if err := audit.Exited(t.dir, int(exit.GetPid()), end); err != nil {
		log.G(ctx).WithError(err).Warn("audit the exit")
	}
}

// created remembers where the runtime keeps the state of container id, and what
// its output goes through.
func (e *exits) created(ctx context.Context, root, id string, out *output) {
	namespace, _ := namespaces.Namespace(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.containers[id] = &container{dir: filepath.Join(root, namespace, id), output: out, told: make(chan struct{})}
}

func (e *exits) container(id string) *container {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.containers[id]
}

// end gives the container whose end this event is the first to tell, or nil.
func (e *exits) end(exit *eventsapi.TaskExit) *container {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.containers[exit.GetContainerID()]
	if t == nil || t.ended || exit.GetID() != exit.GetContainerID() {
		return nil
	}
	t.ended = true
	return t
}

// tellOOM says whether to pass on that the kernel killed for want of memory: as
// often as it happens, but once when the container is over.
func (e *exits) tellOOM(t *container) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	again := t.oom
	t.oom = true
	return !again || !t.ended
}

// told waits until containerd was told of the end of a container that is about
// to be deleted, with all that is read before: it can ask as soon as the process
// is gone, and the telling is another thread's.
func (e *exits) told(ctx context.Context, id string) {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t := e.container(id)
	if t == nil || !e.began(t) {
		return
	}
	select {
	case <-t.told:
	case <-ctx.Done(): // it runs, and the request fails then
	}
}

func (e *exits) began(t *container) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return t.started
}

// forget is for one that was deleted. What it has written is still on its way to
// the engine, and would be lost with this process, which the engine ends next.
func (e *exits) forget(id string, patience time.Duration) {
	if t := e.container(id); t != nil {
		t.output.drained(patience)
		t.output.close()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.containers, id)
}

// deletePatience is that of the embedded service, which waits for the same reader.
const deletePatience = 10 * time.Second

// watch begins to watch container id if it must not run unwatched, and says so
// to the command that is about to let its program begin. unwatch is for when
// that fails.
func (e *exits) watch(id string) (unwatch func(), err error) {
	none := func() {}
	t := e.container(id)
	if t == nil {
		return none, nil
	}
	e.start(t)
	plan, err := sampler.Load(t.dir)
	if err != nil || plan == nil {
		return none, err
	}
	w, err := sampler.Begin(plan, t.dir)
	if err != nil {
		return none, err
	}
	if err := sampler.Claim(t.dir); err != nil {
		w.Stop()
		return none, err
	}
	return w.Stop, nil
}

func (e *exits) start(t *container) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.started = true
}
