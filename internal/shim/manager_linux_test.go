package shim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	bootapi "github.com/containerd/containerd/api/runtime/bootstrap/v1"
	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	runtimeoptions "github.com/containerd/containerd/api/types/runtimeoptions/v1"
	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
	gorunc "github.com/containerd/go-runc"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
)

// fakeManager keeps what containerd's manager would have started with.
type fakeManager struct {
	containerdshim.Shim
	params *bootapi.BootstrapParams
}

func (f *fakeManager) Name() string { return Name }

func (f *fakeManager) Start(_ context.Context, params *bootapi.BootstrapParams) (*bootapi.BootstrapResult, error) {
	f.params = params
	return &bootapi.BootstrapResult{Address: "unix:///s"}, nil
}

func TestStartConvertsOptions(t *testing.T) {
	generic := pack(t, "type.googleapis.com/"+genericType, &runtimeoptions.Options{ConfigBody: []byte("ShimCgroup = '/shims'")})
	other := &anypb.Any{TypeUrl: "example.com/later.Extension", Value: []byte{1}}
	tests := []struct {
		name       string
		extensions []*anypb.Any
		want       []*anypb.Any
	}{
		{"none", nil, nil},
		{"generic", []*anypb.Any{generic}, []*anypb.Any{pack(t, runcType, &runcoptions.Options{ShimCgroup: "/shims"})}},
		{"runc's, as it is", []*anypb.Any{pack(t, runcType, full)}, []*anypb.Any{pack(t, runcType, full)}},
		{"an extension that is no options", []*anypb.Any{other}, []*anypb.Any{other}},
		{"an empty extension", []*anypb.Any{nil}, []*anypb.Any{nil}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inner := &fakeManager{}
			if _, err := (&shimManager{Shim: inner}).Start(t.Context(), params(tt.extensions)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(params(tt.want), inner.params, protocmp.Transform()); diff != "" {
				t.Errorf("parameters (-want +got):\n%s", diff)
			}
		})
	}
}

func params(extensions []*anypb.Any) *bootapi.BootstrapParams {
	result := &bootapi.BootstrapParams{InstanceID: "c1"}
	for _, value := range extensions {
		result.Extensions = append(result.Extensions, &bootapi.Extension{Value: value})
	}
	return result
}

func TestStartRefusesOptions(t *testing.T) {
	inner := &fakeManager{}
	bad := pack(t, genericType, &runtimeoptions.Options{ConfigBody: []byte("Debug = true")})
	_, err := (&shimManager{Shim: inner}).Start(t.Context(), params([]*anypb.Any{bad}))
	checkInvalid(t, err, `unknown key "Debug"`)
	if inner.params != nil {
		t.Error("the shim was started")
	}
}

// runtimeScript installs a shell script as the OCI runtime and makes it the
// default. What it is called with is appended to the file calls beside it.
func runtimeScript(t *testing.T, body string) (path, calls string) {
	t.Helper()
	dir := t.TempDir()
	path, calls = filepath.Join(dir, "runtime"), filepath.Join(dir, "calls")
	script := "#!/bin/sh\necho \"$0 $*\" >>" + calls + "\n" + body + "\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	before := gorunc.DefaultCommand
	gorunc.DefaultCommand = path
	t.Cleanup(func() { gorunc.DefaultCommand = before })
	return path, calls
}

func TestInfo(t *testing.T) {
	const listing = `echo '{"ociVersionMin":"1.0.0","ociVersionMax":"1.3.0"}'`
	marshal := func(value *anypb.Any) []byte {
		body, err := proto.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	tests := []struct {
		name, script string
		input        []byte
		wantOptions  *anypb.Any
		wantFeatures string
	}{
		{"no options", listing, nil, nil, `"ociVersionMax":"1.3.0"`},
		{
			"generic options", listing, marshal(pack(t, genericType, &runtimeoptions.Options{ConfigBody: []byte("IoUid = 3")})),
			pack(t, runcType, &runcoptions.Options{IoUid: 3}), `"ociVersionMax":"1.3.0"`,
		},
		{"a runtime without the command", "echo unknown command >&2; exit 1", nil, nil, ""},
		{"a runtime that prints something else", "echo hello", nil, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path, calls := runtimeScript(t, tt.script)
			info, err := (&shimManager{Shim: &fakeManager{}}).Info(t.Context(), bytes.NewReader(tt.input))
			if err != nil {
				t.Fatal(err)
			}
			if info.GetName() != Name || info.GetVersion().GetVersion() == "" {
				t.Errorf("got name %q and version %q", info.GetName(), info.GetVersion().GetVersion())
			}
			if diff := cmp.Diff(tt.wantOptions, info.GetOptions(), protocmp.Transform()); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
			if got := string(info.GetFeatures().GetValue()); !strings.Contains(got, tt.wantFeatures) || (got == "") != (tt.wantFeatures == "") {
				t.Errorf("got features %q, want %q in it", got, tt.wantFeatures)
			}
			checkFile(t, calls, path+" features\n")
		})
	}
}

func TestInfoErrors(t *testing.T) {
	manager := &shimManager{Shim: &fakeManager{}}
	named := pack(t, runcType, &runcoptions.Options{BinaryName: "/no/such/runtime"})
	body, err := proto.Marshal(named)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		input io.Reader
		want  string
	}{
		{"malformed", bytes.NewReader([]byte{0xff}), "malformed"},
		{"unknown type", strings.NewReader("\x0a\x01x"), `unknown type "x"`},
		{"too much", io.LimitReader(zeros{}, maxInfo+2), "more than"},
		{"unreadable", iotest.ErrReader(errors.New("gone")), "gone"},
		{"no such runtime", bytes.NewReader(body), "/no/such/runtime"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := manager.Info(t.Context(), tt.input)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want %q in it", err, tt.want)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestFindRuntime(t *testing.T) {
	inPath, beside, neither := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{inPath, beside} {
		if err := os.WriteFile(filepath.Join(dir, runtimeBinary), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	shimIn := func(dir string) func() (string, error) {
		return func() (string, error) { return filepath.Join(dir, "containerd-shim-sage-v2"), nil }
	}
	tests := []struct {
		name, path string
		executable func() (string, error)
		want       string
	}{
		{"in PATH", inPath, shimIn(neither), runtimeBinary},
		{"in both", inPath, shimIn(beside), runtimeBinary},
		{"beside the shim", neither, shimIn(beside), filepath.Join(beside, runtimeBinary)},
		{"nowhere, so that the error names it", neither, shimIn(neither), runtimeBinary},
		{"a shim without a path", neither, func() (string, error) { return "", os.ErrNotExist }, runtimeBinary},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("PATH", tt.path)
			if got := findRuntime(tt.executable); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// checkFile compares a file's text; no file is no text.
func checkFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", filepath.Base(path), diff)
	}
}
