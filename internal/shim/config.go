package shim

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	runtimeoptions "github.com/containerd/containerd/api/types/runtimeoptions/v1"
	"github.com/pelletier/go-toml/v2"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxConfig bounds a configuration file; a full one has less than a kilobyte.
const maxConfig = 64 << 10

// parseGeneric reads the message that engines send to a runtime type whose
// options they do not know: TOML in the message, or the path of a TOML file,
// which wins, as the message's definition says.
func parseGeneric(generic *runtimeoptions.Options) (*runcoptions.Options, error) {
	if !slices.Contains(bodyTypes, typeName(generic.GetTypeUrl())) {
		return nil, invalid("runtime options: unknown TypeUrl %q, want containerd.runc.v1.Options", generic.GetTypeUrl())
	}
	if generic.GetConfigPath() == "" {
		return parseConfig(generic.GetConfigBody())
	}
	body, err := readConfig(generic.GetConfigPath())
	if err != nil {
		return nil, err
	}
	return parseConfig(body)
}

// readConfig reads at most one byte more than maxConfig, which parseConfig then
// refuses. The path must be absolute because the shim's working directory is the
// bundle, where a relative one could name a file of the image.
func readConfig(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		return nil, invalid("runtime options: ConfigPath is relative, want an absolute path")
	}
	body, err := readRegular(path)
	if err != nil {
		return nil, invalid("runtime options: ConfigPath: %v", err)
	}
	return body, nil
}

func readRegular(path string) ([]byte, error) {
	// Without O_NONBLOCK a FIFO would hold the shim here until somebody writes.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	return io.ReadAll(io.LimitReader(f, maxConfig+1))
}

// parseConfig maps TOML keys to options of the same name. Names are compared
// without case, as containerd does when it reads the same keys for the runc
// shim; any other key is refused, for a misspelt one would silently be a default.
func parseConfig(body []byte) (*runcoptions.Options, error) {
	if len(body) > maxConfig {
		return nil, invalid("runtime options: more than %d bytes of TOML", maxConfig)
	}
	keys := map[string]any{}
	if err := toml.Unmarshal(body, &keys); err != nil {
		return nil, invalid("runtime options: %v", err)
	}
	opts := &runcoptions.Options{}
	fields := optionFields(opts.ProtoReflect().Descriptor())
	for key, value := range keys {
		if err := setOption(opts.ProtoReflect(), fields, key, value); err != nil {
			return nil, err
		}
	}
	return opts, nil
}

// optionFields lists the options that there are by the name they have in TOML,
// which is the Go name. Taken from the message itself, so that a containerd with
// one more option needs no change here.
func optionFields(message protoreflect.MessageDescriptor) map[string]protoreflect.FieldDescriptor {
	fields := map[string]protoreflect.FieldDescriptor{}
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		fields[strings.ReplaceAll(string(field.Name()), "_", "")] = field
	}
	return fields
}

func setOption(opts protoreflect.Message, fields map[string]protoreflect.FieldDescriptor, key string, value any) error {
	name := strings.ToLower(key)
	if done, err := setEnvelope(name, value); done {
		return err
	}
	field := fields[name]
	switch {
	case field == nil:
		return invalid("runtime options: unknown key %q", key)
	case opts.Has(field):
		return invalid("runtime options: %q is given twice", key)
	}
	converted, ok := convertValue(field.Kind(), value)
	if !ok {
		return invalid("runtime options: %q is a TOML %T, want %s", key, value, field.Kind())
	}
	opts.Set(field, converted)
	return nil
}

// setEnvelope takes the keys of the generic message itself: CRI passes the whole
// section of containerd's configuration as the body, and with it these.
func setEnvelope(name string, value any) (done bool, err error) {
	text, isString := value.(string)
	switch {
	case name != "typeurl" && name != "configpath":
		return false, nil
	case name == "typeurl" && isString && slices.Contains(bodyTypes, typeName(text)):
		return true, nil
	case name == "configpath" && isString && text == "":
		return true, nil
	default:
		return true, invalid("runtime options: %q inside of a configuration, want the known type and no path", name)
	}
}

// convertValue gives a TOML value the type of the option. No value is ever
// stretched: a number is not a boolean, and one that does not fit is not cut.
func convertValue(kind protoreflect.Kind, value any) (protoreflect.Value, bool) {
	switch v := value.(type) {
	case bool:
		return protoreflect.ValueOfBool(v), kind == protoreflect.BoolKind
	case string:
		return protoreflect.ValueOfString(v), kind == protoreflect.StringKind
	case int64:
		return protoreflect.ValueOfUint32(uint32(v)), kind == protoreflect.Uint32Kind && v >= 0 && v <= math.MaxUint32
	default:
		return protoreflect.Value{}, false
	}
}
