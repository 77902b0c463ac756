package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	taskapi "github.com/containerd/containerd/api/runtime/task/v3"
	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/ttrpc"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/protobuf/types/known/emptypb"
)

// service answers containerd's requests. It checks what the embedded service
// would panic on, completes what that would guess, and leaves the rest to it.
type service struct {
	taskapi.TTRPCTaskService

	mu sync.Mutex
	// bundles holds the bundle of each container by its id, for Delete: that
	// request names none, and the shim of a pod has several.
	bundles map[string]string

	exits *exits
}

// RegisterTTRPC is how containerd's plugin loader finds the service.
func (s *service) RegisterTTRPC(server *ttrpc.Server) error {
	taskapi.RegisterTTRPCTaskService(server, s)
	return nil
}

// UnaryServerInterceptor gives every error of every request its class, also of
// the requests where the embedded service forgets to.
func (s *service) UnaryServerInterceptor() ttrpc.UnaryServerInterceptor {
	return func(ctx context.Context, unmarshal ttrpc.Unmarshaler, _ *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
		resp, err := method(ctx, func(request any) error {
			if err := unmarshal(request); err != nil {
				return invalid("malformed request: %v", err)
			}
			return nil
		})
		return resp, errgrpc.ToGRPC(err)
	}
}

// Create settles the options before anything is done. The embedded service then
// writes them to the bundle, so exec, delete and a later clean-up use the same.
func (s *service) Create(ctx context.Context, r *taskapi.CreateTaskRequest) (*taskapi.CreateTaskResponse, error) {
	opts, err := parseOptions(r.GetOptions())
	if err != nil {
		return nil, err
	}
	complete(opts)
	if r.Options, err = packOptions(opts); err != nil {
		return nil, err
	}
	out, err := divert(r)
	if err != nil {
		return nil, fmt.Errorf("stand before the output: %w", err)
	}
	// Before, as a container can end at once.
	s.exits.created(ctx, opts.Root, r.GetID(), out)
	resp, err := s.TTRPCTaskService.Create(out.context(ctx), r)
	if err != nil {
		out.end()
		return nil, err
	}
	s.setBundle(r.GetID(), r.GetBundle())
	if err := out.begin(s.exits.container(r.GetID()).dir, int(resp.GetPid())); err != nil {
		return nil, err // the engine deletes what is there
	}
	return resp, nil
}

// State tells the engine the names that it gave: it attaches to them.
func (s *service) State(ctx context.Context, r *taskapi.StateRequest) (*taskapi.StateResponse, error) {
	resp, err := s.TTRPCTaskService.State(ctx, r)
	if t := s.exits.container(r.GetID()); err == nil && t != nil && r.GetExecID() == "" {
		t.output.restore(&resp.Stdout, &resp.Stderr)
	}
	return resp, err
}

// Start has the container watched, where it must be, before its program begins.
// Its time counts from there.
func (s *service) Start(ctx context.Context, r *taskapi.StartRequest) (*taskapi.StartResponse, error) {
	if r.GetExecID() != "" {
		return s.TTRPCTaskService.Start(ctx, r)
	}
	unwatch, err := s.exits.watch(r.GetID())
	if err != nil {
		return nil, fmt.Errorf("watch the container: %w", err)
	}
	resp, err := s.TTRPCTaskService.Start(ctx, r)
	if err != nil {
		unwatch()
	}
	return resp, err
}

// Delete records that a container is gone. containerd runs the clean-up after
// the end of every shim, also where nothing is left, and would have it execute
// the runtime once more for each container.
func (s *service) Delete(ctx context.Context, r *taskapi.DeleteRequest) (*taskapi.DeleteResponse, error) {
	since := time.Now()
	if r.GetExecID() == "" {
		s.exits.told(ctx, r.GetID())
	}
	resp, err := s.TTRPCTaskService.Delete(ctx, r)
	if err == nil && r.GetExecID() == "" {
		s.exits.forget(r.GetID(), max(deletePatience-time.Since(since), time.Second))
		recordDeleted(s.takeBundle(r.GetID()))
	}
	return resp, err
}

func (s *service) setBundle(id, bundle string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bundles[id] = bundle
}

func (s *service) takeBundle(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	bundle := s.bundles[id]
	delete(s.bundles, id)
	return bundle
}

// Exec refuses an exec id that is a path: it becomes the name of a pid file in
// the bundle, which sage-runtime writes as root.
func (s *service) Exec(ctx context.Context, r *taskapi.ExecProcessRequest) (*emptypb.Empty, error) {
	if strings.ContainsAny(r.GetExecID(), "/\x00") {
		return nil, invalid("exec: the id is a path")
	}
	if err := decodes("exec: process", r.GetSpec(), new(specs.Process)); err != nil {
		return nil, err
	}
	return s.TTRPCTaskService.Exec(ctx, r)
}

// Update refuses a request without resources, or with what is not JSON.
func (s *service) Update(ctx context.Context, r *taskapi.UpdateTaskRequest) (*emptypb.Empty, error) {
	if err := decodes("update: resources", r.GetResources(), new(specs.LinuxResources)); err != nil {
		return nil, err
	}
	return s.TTRPCTaskService.Update(ctx, r)
}

// Checkpoint refuses options of another type.
func (s *service) Checkpoint(ctx context.Context, r *taskapi.CheckpointTaskRequest) (*emptypb.Empty, error) {
	if r.Options != nil {
		if err := typeurl.UnmarshalTo(r.Options, new(runcoptions.CheckpointOptions)); err != nil {
			return nil, invalid("checkpoint: options: %v", err)
		}
	}
	return s.TTRPCTaskService.Checkpoint(ctx, r)
}

// decodes tells whether value is there and is the JSON of into. What the decoder
// says is cut to names and kinds: it could quote an argument or a variable.
func decodes(what string, value typeurl.Any, into any) error {
	if len(value.GetValue()) == 0 {
		return invalid("%s is missing", what)
	}
	err := json.Unmarshal(value.GetValue(), into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return invalid("%s: field %q is of the wrong JSON type, want %s", what, wrong.Field, wrong.Type)
	}
	if err != nil {
		return invalid("%s is not JSON", what)
	}
	return nil
}
