package shim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	eventsapi "github.com/containerd/containerd/api/events"
	taskapi "github.com/containerd/containerd/api/runtime/task/v3"
	gorunc "github.com/containerd/go-runc"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sampler"
	"github.com/sage-sandbox/sage/internal/state"
)

// output stands between containerd's task service and the FIFOs that the engine
// reads a container's output from, so that it can be counted (S-166, S-167).
//
// Only sage-runtime knows whether there is a limit: the policy is its to settle,
// with a configuration that only it was told the place of. And it knows only in
// "create", within which the task service opens the FIFOs by their names. So the
// service is given names of ours, links to the engine's FIFOs; FIFOs of ours lie
// beside them, and "create" puts those in their place where there is a limit
// ([sampler.Divert]). Without one, a container has two links more, and no byte of
// it takes another way.
type output struct {
	dir            string // in the bundle
	stdout, stderr string // the engine's, "" for none
	streams        []*stream
	// ended is closed when nothing more will be passed on.
	ended chan struct{}
}

// stream is one of the two.
type stream struct {
	link string
	from *os.File // our FIFO; open before the service opens it, which waits for a reader
	path string   // the engine's FIFO
	to   *os.File
}

// divert gives the request names of ours, and nil where that cannot be: output
// that goes to a file or to a program (binary://) is not ours to count. The
// runtime is not told then that anybody counts, and refuses a policy with a limit.
func divert(r *taskapi.CreateTaskRequest) (*output, error) {
	if r.GetBundle() == "" || r.GetCheckpoint() != "" || !isFIFO(r.GetStdout()) || !isFIFO(r.GetStderr()) {
		return nil, nil
	}
	o := &output{dir: filepath.Join(r.GetBundle(), "sage-output"), stdout: r.GetStdout(), stderr: r.GetStderr(), ended: make(chan struct{})}
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		return nil, err
	}
	for name, path := range map[string]*string{"stdout": &r.Stdout, "stderr": &r.Stderr} {
		if err := o.add(name, path); err != nil {
			o.close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return o, nil
}

// isFIFO is true of no stream at all: what the engine does not want to have goes
// to /dev/null, where it is nobody's burden.
func isFIFO(path string) bool {
	if path == "" {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && filepath.IsAbs(path) && info.Mode()&os.ModeNamedPipe != 0
}

func (o *output) add(name string, path *string) error {
	if *path == "" {
		return nil
	}
	link, fifo := sampler.OutputNames(o.dir, name)
	if err := os.Symlink(*path, link); err != nil {
		return err
	}
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		return err
	}
	from, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	o.streams = append(o.streams, &stream{link: link, from: from, path: *path})
	*path = link
	return nil
}

// context tells the runtime, and nobody else could, that we count.
func (o *output) context(ctx context.Context) context.Context {
	if o == nil {
		return ctx
	}
	return gorunc.WithExtraEnv(ctx, sampler.OutputEnv+"="+o.dir)
}

// begin counts where the runtime said so, in a container that it has just created
// with its state in dir and whose init is pid.
func (o *output) begin(dir string, pid int) error {
	if o == nil {
		return nil
	}
	if !o.diverted() {
		o.end()
		return nil
	}
	counter, err := newCounter(dir, pid)
	for _, s := range o.streams {
		if err == nil {
			// For reading too, as the service has it: opening does not wait for the
			// engine, and its going away is no error.
			s.to, err = os.OpenFile(s.path, os.O_RDWR|unix.O_NONBLOCK, 0)
		}
	}
	if err != nil {
		o.end()
		return fmt.Errorf("count the output: %w", err)
	}
	var relays sync.WaitGroup
	for _, s := range o.streams {
		relays.Go(func() { s.relay(counter) })
	}
	go func() { relays.Wait(); o.end() }()
	return nil
}

// end is called once: by [output.begin] or what that starts, or in place of it.
func (o *output) end() {
	if o != nil {
		o.close()
		close(o.ended)
	}
}

// diverted: the runtime exchanges all names or fails.
func (o *output) diverted() bool {
	for _, s := range o.streams {
		if info, err := os.Lstat(s.link); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			return true
		}
	}
	return false
}

func newCounter(dir string, pid int) (*sampler.Output, error) {
	record, err := state.Load(dir)
	if err != nil {
		return nil, err
	}
	init, err := sampler.Identify(pid)
	if err != nil {
		return nil, err
	}
	cgroups, err := sampler.Cgroups(dir)
	if err != nil {
		return nil, err
	}
	counter := sampler.NewOutput(record.Policy.Process.MaxOutputBytes)
	counter.Guard(dir, init, cgroups)
	return counter, nil
}

// relay ends when the service has closed our FIFO, after the last process that
// had the container's pipe.
func (s *stream) relay(counter *sampler.Output) {
	_ = counter.Copy(s.to, s.from)
	s.close()
}

func (s *stream) close() {
	for _, f := range []*os.File{s.from, s.to} {
		if f != nil {
			_ = f.Close() // perhaps closed already
		}
	}
}

// drained waits until all was passed on, but not for ever: an engine may have
// stopped to read.
func (o *output) drained(patience time.Duration) {
	if o == nil {
		return
	}
	select {
	case <-o.ended:
	case <-time.After(patience):
	}
}

func (o *output) close() {
	if o == nil {
		return
	}
	for _, s := range o.streams {
		s.close()
	}
}

// restore puts the engine's names back: it attaches to them after a restart.
func (o *output) restore(stdout, stderr *string) {
	if o != nil {
		*stdout, *stderr = o.stdout, o.stderr
	}
}

func (o *output) restoreEvent(event *eventsapi.TaskCreate) {
	if event.GetIO() != nil {
		o.restore(&event.IO.Stdout, &event.IO.Stderr)
	}
}
