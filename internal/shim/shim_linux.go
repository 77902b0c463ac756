package shim

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"

	taskapi "github.com/containerd/containerd/api/runtime/task/v3"
	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/manager"
	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/task"
	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/pkg/shutdown"
	"github.com/containerd/containerd/v2/plugins"
	containerdversion "github.com/containerd/containerd/v2/version"
	gorunc "github.com/containerd/go-runc"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
)

// runtimeBinary is what is executed where the engine names no other.
const runtimeBinary = "sage-runtime"

// version is set by the linker; without that it comes from Go's build record.
var version string

// Run is the whole program: it reads the process's arguments as containerd
// passes them, does what they say and does not return on failure.
func Run(ctx context.Context) {
	// Package variables of the two libraries are the only way to tell them, and
	// they are read by the short-lived processes too, so before anything else.
	gorunc.DefaultCommand = findRuntime(os.Executable)
	containerdversion.Version, containerdversion.Revision = buildVersion()
	registry.Register(taskPlugin(task.NewTaskService))
	containerdshim.RunShim(ctx, &shimManager{Shim: manager.NewShimManager(Name)})
}

// newTasks makes the service that does the work, as containerd's task package does.
type newTasks func(context.Context, containerdshim.Publisher, shutdown.Service) (taskapi.TTRPCTaskService, error)

// taskPlugin stands in for containerd's plugin of the same id. The publisher and
// the shutdown service are those that containerd's own run loop registers.
func taskPlugin(inner newTasks) *plugin.Registration {
	return &plugin.Registration{
		Type:     plugins.TTRPCPlugin,
		ID:       "task",
		Requires: []plugin.Type{plugins.EventPlugin, plugins.InternalPlugin},
		InitFn:   func(ic *plugin.InitContext) (any, error) { return newService(ic, inner) },
	}
}

func newService(ic *plugin.InitContext, inner newTasks) (any, error) {
	publisher, err := pluginAs[containerdshim.Publisher](ic, plugins.EventPlugin, "publisher")
	if err != nil {
		return nil, err
	}
	down, err := pluginAs[shutdown.Service](ic, plugins.InternalPlugin, "shutdown")
	if err != nil {
		return nil, err
	}
	exits := newExits(publisher)
	tasks, err := inner(ic.Context, exits, down)
	return &service{TTRPCTaskService: tasks, bundles: map[string]string{}, exits: exits}, err
}

func pluginAs[T any](ic *plugin.InitContext, kind plugin.Type, id string) (made T, err error) {
	instance, err := ic.GetByID(kind, id)
	if err != nil {
		return made, err
	}
	made, ok := instance.(T)
	if !ok {
		return made, fmt.Errorf("plugin %s is a %T, want %T", id, instance, made)
	}
	return made, nil
}

// findRuntime prefers PATH, as containerd does for runc. The folder of the shim
// comes second: an engine may name the shim by its path, and then PATH says
// nothing about where sage was unpacked.
func findRuntime(executable func() (string, error)) string {
	self, err := executable()
	beside := filepath.Join(filepath.Dir(self), runtimeBinary)
	if err != nil || isProgram(runtimeBinary) || !isProgram(beside) {
		return runtimeBinary
	}
	return beside
}

func isProgram(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

// buildVersion gives the version and the commit that the binary was built from.
func buildVersion() (release, revision string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			revision = setting.Value
		}
	}
	return cmp.Or(version, info.Main.Version), revision
}
