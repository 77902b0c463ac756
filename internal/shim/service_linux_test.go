package shim

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	taskapi "github.com/containerd/containerd/api/runtime/task/v3"
	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	runtimeoptions "github.com/containerd/containerd/api/types/runtimeoptions/v1"
	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/pkg/shutdown"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/plugin"
	"github.com/containerd/ttrpc"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// fakeTasks stands for containerd's task service: it keeps what it was asked
// and fails where told to.
type fakeTasks struct {
	taskapi.TTRPCTaskService // nil: a request that a test did not expect panics

	mu    sync.Mutex
	asked []proto.Message
	err   error
}

func (f *fakeTasks) ask(r proto.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r)
	return f.err
}

func (f *fakeTasks) Create(_ context.Context, r *taskapi.CreateTaskRequest) (*taskapi.CreateTaskResponse, error) {
	return &taskapi.CreateTaskResponse{Pid: 7}, f.ask(r)
}

func (f *fakeTasks) Delete(_ context.Context, r *taskapi.DeleteRequest) (*taskapi.DeleteResponse, error) {
	return &taskapi.DeleteResponse{}, f.ask(r)
}

func (f *fakeTasks) Exec(_ context.Context, r *taskapi.ExecProcessRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, f.ask(r)
}

func (f *fakeTasks) Update(_ context.Context, r *taskapi.UpdateTaskRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, f.ask(r)
}

func (f *fakeTasks) Checkpoint(_ context.Context, r *taskapi.CheckpointTaskRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, f.ask(r)
}

// serve loads the plugin as containerd's run loop does and gives a client of it.
func serve(t *testing.T, inner *fakeTasks) (taskapi.TTRPCTaskService, *ttrpc.Client) {
	t.Helper()
	instance, err := load(t, func(context.Context, containerdshim.Publisher, shutdown.Service) (taskapi.TTRPCTaskService, error) {
		return inner, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	interceptor := instance.(containerdshim.TTRPCServerUnaryOptioner).UnaryServerInterceptor()
	server, err := ttrpc.NewServer(ttrpc.WithUnaryServerInterceptor(interceptor))
	if err != nil {
		t.Fatal(err)
	}
	if err := instance.(containerdshim.TTRPCService).RegisterTTRPC(server); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(context.Background(), listener) }()
	conn, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := ttrpc.NewClient(conn)
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
		if err := <-done; !errors.Is(err, ttrpc.ErrServerClosed) {
			t.Error(err)
		}
	})
	return taskapi.NewTTRPCTaskClient(client), client
}

type fakePublisher struct{ containerdshim.Publisher }

// load runs the plugin after the two plugins that it asks for.
func load(t *testing.T, inner newTasks) (any, error) {
	t.Helper()
	ctx, down := shutdown.WithShutdown(context.Background())
	t.Cleanup(down.Shutdown)
	loaded := plugin.NewPluginSet()
	for _, stock := range []struct {
		kind plugin.Type
		id   string
		made any
	}{
		{plugins.EventPlugin, "publisher", fakePublisher{}},
		{plugins.InternalPlugin, "shutdown", down},
	} {
		registration := plugin.Registration{Type: stock.kind, ID: stock.id, InitFn: func(*plugin.InitContext) (any, error) { return stock.made, nil }}
		if err := loaded.Add(registration.Init(plugin.NewContext(ctx, loaded, nil))); err != nil {
			t.Fatal(err)
		}
	}
	return taskPlugin(inner).Init(plugin.NewContext(ctx, loaded, nil)).Instance()
}

// TestCreateOverTTRPC sends what engines send through the plugin, and looks at
// what arrives at containerd's task service, which takes one type only.
func TestCreateOverTTRPC(t *testing.T) {
	generic := func(config string) *anypb.Any {
		return pack(t, genericType, &runtimeoptions.Options{ConfigBody: []byte(config)})
	}
	tests := []struct {
		name    string
		options *anypb.Any
		want    *runcoptions.Options
	}{
		{"no options", nil, &runcoptions.Options{Root: Root}},
		{"generic, empty", generic(""), &runcoptions.Options{Root: Root}},
		{"generic", generic(fullConfig), full},
		{"runc's", pack(t, runcType, full), full},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bundle, inner := t.TempDir(), &fakeTasks{}
			client, _ := serve(t, inner)
			resp, err := client.Create(t.Context(), &taskapi.CreateTaskRequest{ID: "c1", Bundle: bundle, Options: tt.options})
			if err != nil || resp.GetPid() != 7 {
				t.Fatalf("got pid %d and error %v, want 7", resp.GetPid(), err)
			}
			want := []proto.Message{&taskapi.CreateTaskRequest{ID: "c1", Bundle: bundle, Options: pack(t, runcType, tt.want)}}
			if diff := cmp.Diff(want, inner.asked, protocmp.Transform()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRefusedRequests: none of these reaches the inner service, which would
// panic on most of them, and the client sees the class of the error.
func TestRefusedRequests(t *testing.T) {
	create := func(options *anypb.Any) proto.Message {
		return &taskapi.CreateTaskRequest{ID: "c1", Options: options}
	}
	exec := func(id string, spec *anypb.Any) proto.Message {
		return &taskapi.ExecProcessRequest{ID: "c1", ExecID: id, Spec: spec}
	}
	body := func(text string) *anypb.Any { return &anypb.Any{TypeUrl: "x", Value: []byte(text)} }
	tests := []struct {
		name, method string
		request      proto.Message
		want         string
	}{
		{"options of another runtime", "Create", create(&anypb.Any{TypeUrl: "x.Options", Value: []byte{1}}), `unknown type "x.Options"`},
		{"malformed options", "Create", create(&anypb.Any{TypeUrl: runcType, Value: []byte{0xff}}), "malformed"},
		{"exec without a process", "Exec", exec("e1", nil), "exec: process is missing"},
		{"exec with an empty process", "Exec", exec("e1", body("")), "exec: process is missing"},
		{"exec without JSON", "Exec", exec("e1", body("secret")), "exec: process is not JSON"},
		{"exec with a wrong field", "Exec", exec("e1", body(`{"args":"secret"}`)), `exec: process: field "args"`},
		{"exec id with a path", "Exec", exec("../e1", body("{}")), "the id is a path"},
		{"update without resources", "Update", &taskapi.UpdateTaskRequest{ID: "c1"}, "update: resources is missing"},
		{"update with a wrong field", "Update", &taskapi.UpdateTaskRequest{ID: "c1", Resources: body(`{"pids":1}`)}, `field "pids"`},
		{"checkpoint with other options", "Checkpoint", &taskapi.CheckpointTaskRequest{ID: "c1", Options: pack(t, runcType, full)}, "checkpoint: options"},
		{"a bundle that is not UTF-8", "Create", &anypb.Any{Value: []byte{0xff}}, "malformed request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inner := &fakeTasks{}
			_, client := serve(t, inner)
			err := client.Call(t.Context(), "containerd.task.v3.Task", tt.method, tt.request, &emptypb.Empty{})
			checkInvalid(t, errgrpc.ToNative(err), tt.want)
			if len(inner.asked) > 0 {
				t.Errorf("the inner service was asked: %v", inner.asked)
			}
		})
	}
}

func TestPassedRequests(t *testing.T) {
	inner := &fakeTasks{}
	client, _ := serve(t, inner)
	exec := &taskapi.ExecProcessRequest{ID: "c1", ExecID: "e1", Spec: &anypb.Any{TypeUrl: "x", Value: []byte(`{"args":["true"]}`)}}
	update := &taskapi.UpdateTaskRequest{ID: "c1", Resources: &anypb.Any{TypeUrl: "x", Value: []byte(`{"pids":{"limit":9}}`)}}
	plain := &taskapi.CheckpointTaskRequest{ID: "c1", Path: "/images"}
	optioned := &taskapi.CheckpointTaskRequest{ID: "c1", Options: pack(t, "containerd.runc.v1.CheckpointOptions", &runcoptions.CheckpointOptions{Exit: true})}
	_, err1 := client.Exec(t.Context(), exec)
	_, err2 := client.Update(t.Context(), update)
	_, err3 := client.Checkpoint(t.Context(), plain)
	_, err4 := client.Checkpoint(t.Context(), optioned)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	want := []proto.Message{exec, update, plain, optioned}
	if diff := cmp.Diff(want, inner.asked, protocmp.Transform()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestErrorClasses(t *testing.T) {
	tests := []struct {
		name string
		err  error
		is   func(error) bool
	}{
		{"an error with a class", errdefs.ErrNotFound, errdefs.IsNotFound},
		{"wrapped", errors.Join(errors.New("x"), errdefs.ErrFailedPrecondition), errdefs.IsFailedPrecondition},
		{"one that is of gRPC already", errgrpc.ToGRPC(errdefs.ErrAlreadyExists), errdefs.IsAlreadyExists},
		{"cancelled", context.Canceled, errdefs.IsCanceled},
		{"late", context.DeadlineExceeded, errdefs.IsDeadlineExceeded},
		{"none", os.ErrClosed, errdefs.IsUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, _ := serve(t, &fakeTasks{err: tt.err})
			_, err := client.Create(t.Context(), &taskapi.CreateTaskRequest{ID: "c1"})
			if native := errgrpc.ToNative(err); !tt.is(native) {
				t.Errorf("got %v, want another class", native)
			}
		})
	}
}

func TestDeleteIsRecorded(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		execID string
		want   bool
	}{
		{"the container", nil, "", true},
		{"an exec", nil, "e1", false},
		{"failed", errdefs.ErrFailedPrecondition, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bundle, inner := t.TempDir(), &fakeTasks{}
			client, _ := serve(t, inner)
			if _, err := client.Create(t.Context(), &taskapi.CreateTaskRequest{ID: "c1", Bundle: bundle}); err != nil {
				t.Fatal(err)
			}
			inner.err = tt.err
			_, err := client.Delete(t.Context(), &taskapi.DeleteRequest{ID: "c1", ExecID: tt.execID})
			if (err != nil) != (tt.err != nil) {
				t.Errorf("got error %v, want %v", err, tt.err)
			}
			if got := isDeleted(bundle); got != tt.want {
				t.Errorf("recorded as deleted: got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestPluginErrors(t *testing.T) {
	failed := errors.New("no epoll")
	_, err := load(t, func(context.Context, containerdshim.Publisher, shutdown.Service) (taskapi.TTRPCTaskService, error) {
		return nil, failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
	alone := plugin.NewContext(t.Context(), plugin.NewPluginSet(), nil)
	if _, err := taskPlugin(nil).Init(alone).Instance(); !errors.Is(err, plugin.ErrPluginNotFound) {
		t.Errorf("without the publisher: got %v, want %v", err, plugin.ErrPluginNotFound)
	}
}
