package shim

import (
	"path/filepath"
	"strings"
	"testing"

	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	runtimeoptions "github.com/containerd/containerd/api/types/runtimeoptions/v1"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestConfigPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "options.toml")
	write(t, path, fullConfig)
	// The body is what is not read: with a path it does not count.
	generic := &runtimeoptions.Options{ConfigPath: path, ConfigBody: []byte("SystemdCgroup = false\nIoUid = 7")}
	got, err := parseGeneric(generic)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full, got, protocmp.Transform()); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

func TestConfigPathErrors(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	in := func(name string) string { return filepath.Join(dir, name) }
	write(t, in("large"), "#"+strings.Repeat("x", maxConfig))
	write(t, in("unknown"), "Debug = true")
	write(t, in("relative"), "SystemdCgroup = true")
	// Opening it without care would wait for a writer that never comes.
	if err := unix.Mkfifo(in("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path, want string
	}{
		{"missing", in("missing"), "no such file"},
		{"a folder", dir, "not a regular file"},
		{"a pipe", in("fifo"), "not a regular file"},
		{"a device without an end", "/dev/zero", "not a regular file"},
		{"too large", in("large"), "more than 65536 bytes"},
		{"an unknown key", in("unknown"), `unknown key "Debug"`},
		{"relative, so in the bundle", "relative", "want an absolute path"},
		{"a NUL", "/\x00", "invalid argument"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseGeneric(&runtimeoptions.Options{ConfigPath: tt.path})
			checkInvalid(t, err, tt.want)
			if got != (*runcoptions.Options)(nil) {
				t.Errorf("got options %v beside the error", got)
			}
		})
	}
}
