package shim

import (
	"os"
	"strings"
	"testing"

	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	runtimeoptions "github.com/containerd/containerd/api/types/runtimeoptions/v1"
	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	runcType    = "containerd.runc.v1.Options"
	genericType = "runtimeoptions.v1.Options"
)

// pack gives a message as the engines send it: without the host part of the type.
func pack(t testing.TB, typeURL string, message proto.Message) *anypb.Any {
	t.Helper()
	body, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return &anypb.Any{TypeUrl: typeURL, Value: body}
}

// full has every option that there is; a new one makes TestParseEveryOption fail.
var full = &runcoptions.Options{
	NoPivotRoot: true, NoNewKeyring: true, ShimCgroup: "/shims", IoUid: 1000, IoGid: 1001,
	BinaryName: "/opt/sage-runtime", Root: "/run/elsewhere", SystemdCgroup: true,
	CriuImagePath: "/images", CriuWorkPath: "/work",
	TaskApiAddress: "ttrpc+unix:///run/task.sock", TaskApiVersion: 3, //nolint:staticcheck // deprecated, but there
}

const fullConfig = `
NoPivotRoot = true
NoNewKeyring = true
ShimCgroup = "/shims"
IoUid = 1000
IoGid = 1001
BinaryName = "/opt/sage-runtime"
Root = "/run/elsewhere"
SystemdCgroup = true
CriuImagePath = "/images"
CriuWorkPath = "/work"
TaskApiAddress = "ttrpc+unix:///run/task.sock"
TaskApiVersion = 3
`

func TestParseOptions(t *testing.T) {
	body := func(typeURL, config string) *anypb.Any {
		return pack(t, genericType, &runtimeoptions.Options{TypeUrl: typeURL, ConfigBody: []byte(config)})
	}
	systemd := &runcoptions.Options{SystemdCgroup: true}
	tests := []struct {
		name  string
		value *anypb.Any
		want  *runcoptions.Options
	}{
		{"none, as most engines", nil, &runcoptions.Options{}},
		{"empty", &anypb.Any{}, &runcoptions.Options{}},
		{"runc without a body", &anypb.Any{TypeUrl: runcType}, &runcoptions.Options{}},
		{"runc", pack(t, runcType, full), full},
		{"runc with the host part of protobuf", pack(t, "type.googleapis.com/"+runcType, full), full},
		{"generic without a body, as Docker's", &anypb.Any{TypeUrl: genericType}, &runcoptions.Options{}},
		{
			"generic with the host part of protobuf",
			pack(t, "type.googleapis.com/"+genericType, &runtimeoptions.Options{ConfigBody: []byte("SystemdCgroup = true")}), systemd,
		},
		{"generic body", body("", fullConfig), full},
		{"generic body of comments", body("", "# nothing yet\n"), &runcoptions.Options{}},
		{"generic body of a named type", body(runcType, "SystemdCgroup = true"), systemd},
		{"CRI's section with its own type", body(Name+".options", "TypeUrl = '"+Name+".options'\nConfigPath = ''\nSystemdCgroup = true"), systemd},
		{"keys without case, as containerd reads them", body("", "systemdcgroup = true"), systemd},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseOptions(tt.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseEveryOption(t *testing.T) {
	fields := full.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if !full.ProtoReflect().Has(fields.Get(i)) {
			t.Errorf("option %s is in no test", fields.Get(i).Name())
		}
	}
}

func TestParseOptionsErrors(t *testing.T) {
	config := func(text string) *anypb.Any {
		return pack(t, genericType, &runtimeoptions.Options{ConfigBody: []byte(text)})
	}
	tests := []struct {
		name  string
		value *anypb.Any
		want  string
	}{
		{"another runtime's type", &anypb.Any{TypeUrl: "containerd.runhcs.v1.Options"}, `unknown type "containerd.runhcs.v1.Options"`},
		{"a type that is linked in, but no options", pack(t, "containerd.runc.v1.CheckpointOptions", &runcoptions.CheckpointOptions{Exit: true}), "unknown type"},
		{"a body without a type", &anypb.Any{Value: []byte{1}}, "a body without a type"},
		{"a malformed runc body", &anypb.Any{TypeUrl: runcType, Value: []byte{0xff}}, "malformed containerd.runc.v1.Options"},
		{"a malformed generic body", &anypb.Any{TypeUrl: genericType, Value: []byte{0xff}}, "malformed runtimeoptions.v1.Options"},
		{"the wrong field type", &anypb.Any{TypeUrl: runcType, Value: []byte{6<<3 | 2, 2, 0xff, 0xfe}}, "malformed"},
		{"an unknown inner type", pack(t, genericType, &runtimeoptions.Options{TypeUrl: "io.containerd.runsc.v1.options"}), `unknown TypeUrl "io.containerd.runsc.v1.options"`},
		{"an unknown key", config("BinaryNam = 'x'"), `unknown key "BinaryNam"`},
		{"an unknown table", config("[Debug]\nLevel = 1"), `unknown key "Debug"`},
		{"a key given twice", config("Root = '/a'\nroot = '/b'"), "given twice"},
		{"a number for a boolean", config("SystemdCgroup = 1"), `"SystemdCgroup" is a TOML int64, want bool`},
		{"a boolean for a string", config("Root = true"), `"Root" is a TOML bool, want string`},
		{"a string for a number", config("IoUid = '0'"), `"IoUid" is a TOML string, want uint32`},
		{"a negative number", config("IoUid = -1"), `"IoUid"`},
		{"a number that does not fit", config("IoUid = 4294967296"), `"IoUid"`},
		{"a list", config("Root = ['/a']"), `"Root"`},
		{"another type inside", config("TypeUrl = 'x'"), `"typeurl" inside`},
		{"a type inside that is no text", config("TypeUrl = 1"), `"typeurl" inside`},
		{"a path inside", config("ConfigPath = '/x'"), `"configpath" inside`},
		{"what is not TOML", config("{"), "toml:"},
		{"too much", config("#" + strings.Repeat("x", maxConfig)), "more than 65536 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseOptions(tt.value)
			checkInvalid(t, err, tt.want)
		})
	}
}

// checkInvalid wants the class that engines see, and text that says what is wrong.
func checkInvalid(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want %q", want)
	}
	if !errdefs.IsInvalidArgument(err) {
		t.Errorf("error %v is not of class invalid argument", err)
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("got error %q, want %q in it", err, want)
	}
}

func TestComplete(t *testing.T) {
	tests := []struct {
		name        string
		given, want *runcoptions.Options
	}{
		{"nothing given", &runcoptions.Options{}, &runcoptions.Options{Root: Root}},
		{"own root stays", &runcoptions.Options{Root: "/r"}, &runcoptions.Options{Root: "/r"}},
		{"systemd stays", &runcoptions.Options{SystemdCgroup: true}, &runcoptions.Options{Root: Root, SystemdCgroup: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			complete(tt.given)
			if diff := cmp.Diff(tt.want, tt.given, protocmp.Transform()); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// FuzzParseOptions: no input makes it panic; there is a value or an error, never
// both; an error has its class; and a value can be sent on.
func FuzzParseOptions(f *testing.F) {
	f.Add(runcType, pack(f, "", full).Value, "")
	f.Add(genericType, pack(f, "", &runtimeoptions.Options{TypeUrl: runcType}).Value, "")
	f.Add(runcType, []byte{0xff}, "Root = 1")
	f.Add("", []byte(nil), fullConfig)
	f.Add("x/", []byte{8, 1}, "a.b.c = [{d = 1979-05-27}]")
	f.Fuzz(func(t *testing.T, typeURL string, body []byte, config string) {
		fuzzOne(t, &anypb.Any{TypeUrl: typeURL, Value: body})
		fuzzOne(t, pack(t, genericType, &runtimeoptions.Options{ConfigBody: []byte(config)}))
	})
}

func fuzzOne(t *testing.T, value *anypb.Any) {
	opts, err := parseOptions(value)
	if err != nil {
		if opts != nil || !errdefs.IsInvalidArgument(err) {
			t.Fatalf("got options %v and error %v", opts, err)
		}
		return
	}
	packed, err := packOptions(opts)
	if err != nil {
		t.Fatal(err)
	}
	again, err := parseOptions(packed)
	if err != nil || !proto.Equal(opts, again) {
		t.Fatalf("sent on, the options became %v, %v; want %v", again, err, opts)
	}
}
