package shim

import (
	"fmt"
	"strings"

	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	runtimeoptions "github.com/containerd/containerd/api/types/runtimeoptions/v1"
	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// bodyTypes are the names an engine may give to what a generic options message
// holds. The unnamed one is what Docker and ctr send. The last follows the name
// that other runtimes document for containerd's own configuration file.
var bodyTypes = []string{"", "containerd.runc.v1.Options", "runtimeoptions.v1.Options", Name + ".options"}

// parseOptions gives the options that an engine passed, in the form of
// containerd's runc shim. nil, which most engines pass, means no options.
//
// containerd's own code looks the type up in what happens to be linked in, then
// asserts that it got the runc message, and panics where that was another one.
// Here the two types that engines send are named and all others are refused.
// Unknown fields inside a message are ignored as everywhere in protobuf, so that
// a newer containerd with a new field still works.
func parseOptions(value *anypb.Any) (*runcoptions.Options, error) {
	switch name := typeName(value.GetTypeUrl()); name {
	case "":
		if len(value.GetValue()) > 0 {
			return nil, invalid("runtime options: a body without a type")
		}
		return &runcoptions.Options{}, nil
	case "containerd.runc.v1.Options":
		opts := &runcoptions.Options{}
		if err := unmarshal(value, opts); err != nil {
			return nil, err
		}
		return opts, nil
	case "runtimeoptions.v1.Options":
		generic := &runtimeoptions.Options{}
		if err := unmarshal(value, generic); err != nil {
			return nil, err
		}
		return parseGeneric(generic)
	default:
		return nil, invalid("runtime options: unknown type %q, want containerd.runc.v1.Options or runtimeoptions.v1.Options", name)
	}
}

// typeName drops the host part that protobuf's own helpers put before a name
// ("type.googleapis.com/") and containerd's do not.
func typeName(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }

func unmarshal(value *anypb.Any, into proto.Message) error {
	if err := proto.Unmarshal(value.GetValue(), into); err != nil {
		return invalid("runtime options: malformed %s: %v", typeName(value.GetTypeUrl()), err)
	}
	return nil
}

// packOptions is the reverse of parseOptions: what containerd's task package is
// given, always of the one type that it takes. nil stays nil.
func packOptions(opts *runcoptions.Options) (*anypb.Any, error) {
	if opts == nil {
		return nil, nil
	}
	body, err := proto.Marshal(opts)
	if err != nil {
		return nil, invalid("runtime options: %v", err)
	}
	return &anypb.Any{TypeUrl: "containerd.runc.v1.Options", Value: body}, nil
}

// complete fills in what the engine left open.
func complete(opts *runcoptions.Options) {
	if opts.Root == "" {
		opts.Root = Root
	}
}

func invalid(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, errdefs.ErrInvalidArgument)...)
}
