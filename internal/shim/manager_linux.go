package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"

	bootapi "github.com/containerd/containerd/api/runtime/bootstrap/v1"
	"github.com/containerd/containerd/api/types"
	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	runtimeoptions "github.com/containerd/containerd/api/types/runtimeoptions/v1"
	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
	gorunc "github.com/containerd/go-runc"
	"github.com/containerd/log"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/runtime-spec/specs-go/features"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// maxInfo bounds what -info reads: one options message, which may hold a
// configuration.
const maxInfo = 1 << 20

// shimManager answers the short-lived invocations of the binary: start, delete
// and -info. The long-lived one is [service].
type shimManager struct {
	containerdshim.Shim
}

// Start launches the long-lived shim. The embedded manager looks for the runc
// options among the extensions, for the cgroup of the shim, and would not find
// them in the form that engines use for a foreign runtime type.
func (m *shimManager) Start(ctx context.Context, params *bootapi.BootstrapParams) (*bootapi.BootstrapResult, error) {
	for _, extension := range params.GetExtensions() {
		if err := convertExtension(extension); err != nil {
			return nil, err
		}
	}
	return m.Shim.Start(ctx, params)
}

// convertExtension leaves what is not options alone: extensions are also how a
// newer containerd tells its shims of what they need not know.
func convertExtension(extension *bootapi.Extension) error {
	if !extension.GetValue().MessageIs(&runtimeoptions.Options{}) {
		return nil
	}
	opts, err := parseOptions(extension.GetValue())
	if err != nil {
		return err
	}
	extension.Value, err = packOptions(opts)
	return err
}

// Info tells an engine what this runtime is and can do. It is asked with the
// options that a container would be created with, and with none.
func (m *shimManager) Info(ctx context.Context, input io.Reader) (*types.RuntimeInfo, error) {
	release, revision := buildVersion()
	info := &types.RuntimeInfo{
		Name:    m.Name(),
		Version: &types.RuntimeVersion{Version: release, Revision: revision},
	}
	opts, err := readInfoOptions(input)
	if err != nil {
		return nil, err
	}
	if info.Options, err = packOptions(opts); err != nil {
		return nil, err
	}
	info.Features, err = readFeatures(ctx, opts.GetBinaryName())
	return info, err
}

// readInfoOptions gives nil where the engine passed no options.
func readInfoOptions(input io.Reader) (*runcoptions.Options, error) {
	body, err := io.ReadAll(io.LimitReader(input, maxInfo+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read runtime options: %w", err)
	case len(body) > maxInfo:
		return nil, invalid("runtime options: more than %d bytes", maxInfo)
	case len(body) == 0:
		return nil, nil
	}
	value := &anypb.Any{}
	if err := proto.Unmarshal(body, value); err != nil {
		return nil, invalid("runtime options: malformed: %v", err)
	}
	return parseOptions(value)
}

// readFeatures asks the OCI runtime itself. One that cannot be found is an error,
// for no container could run. One that lacks the command is not: an engine may
// name any runtime, and not all have it.
func readFeatures(ctx context.Context, binary string) (*anypb.Any, error) {
	if binary == "" {
		binary = gorunc.DefaultCommand
	}
	path, err := exec.LookPath(binary)
	if err != nil {
		return nil, fmt.Errorf("find the OCI runtime: %w", err)
	}
	found, err := listFeatures(ctx, path)
	if err != nil {
		log.G(ctx).WithError(err).Debug("the OCI runtime does not list its features")
		return nil, nil
	}
	return typeurl.MarshalAnyToProto(found)
}

func listFeatures(ctx context.Context, path string) (*features.Features, error) {
	output, err := exec.CommandContext(ctx, path, "features").Output()
	if err != nil {
		return nil, err
	}
	found := &features.Features{}
	return found, json.Unmarshal(output, found)
}
