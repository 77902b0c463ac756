package runtime

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/hardening"
	"github.com/sage-sandbox/sage/spec"
)

// root makes a container's root file system with links that lead out of it.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"abs": "/a/b", "rel": "a", "up": "../../../../../..", "tohost": "/proc", "loop": "loop", "dangling": "/a/new/x",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Proves: S-110, G-23.
func TestResolve(t *testing.T) {
	v := &survey{}
	if err := v.openRoot(&specs.Spec{Root: &specs.Root{Path: root(t)}}); err != nil {
		t.Fatal(err)
	}
	defer v.close()
	for dest, want := range map[string]string{
		"/": "/", "": "/", "/a/b": "/a/b", "a/b": "/a/b", "/abs": "/a/b", "/rel/b": "/a/b", "/abs/new/dir": "/a/b/new/dir",
		"/up": "/", "/up/a": "/a", "/../../a": "/a", "/a/../up/rel": "/a", "/tohost": "/tohost", "/new": "/new",
	} {
		if got := v.resolve(dest); got != want {
			t.Errorf("resolve(%q): got %q, want %q", dest, got, want)
		}
	}
}

// Proves: G-15, G-22, E-032, E-033.
func TestSurvey(t *testing.T) {
	host := t.TempDir()
	file := filepath.Join(host, "file")
	write(t, file, "x")
	for _, dir := range []string{"in/deep", "empty"} {
		if err := os.MkdirAll(filepath.Join(host, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sock := filepath.Join(host, "in", "deep", "daemon.sock")
	listener, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := unix.Mkfifo(filepath.Join(host, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(host, "innocent")
	if err := os.Symlink(sock, link); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, source string
		kind         hardening.SourceKind
		magic        int64
		socket       string
	}{
		{"file", file, hardening.SourceFile, 0, ""},
		{"missing", filepath.Join(host, "no"), hardening.SourceMissing, 0, ""},
		{"socket behind a link", link, hardening.SourceSocket, 0, sock},
		{"directory with a socket", filepath.Join(host, "in"), hardening.SourceDirectory, 0, sock},
		{"directory", filepath.Join(host, "empty"), hardening.SourceDirectory, 0, ""},
		{"fifo", filepath.Join(host, "fifo"), hardening.SourceFIFO, 0, ""},
		{"device", "/dev/null", hardening.SourceDevice, 0, ""},
		{"proc", "/proc/self/net", hardening.SourceDirectory, unix.PROC_SUPER_MAGIC, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &specs.Spec{Root: &specs.Root{Path: t.TempDir()}, Mounts: []specs.Mount{
				{Destination: "/x", Type: "tmpfs"}, {Destination: "/y", Source: tt.source, Options: []string{"rbind"}},
			}}
			v, err := newSurvey(s, spec.Policy{})
			if err != nil {
				t.Fatal(err)
			}
			defer v.close()
			got := v.facts.Mounts[1]
			if got.Kind != tt.kind || got.Socket != tt.socket || tt.magic != 0 && got.Magic != tt.magic {
				t.Errorf("got %+v, want kind %s, socket %q", got, tt.kind, tt.socket)
			}
			if first := v.facts.Mounts[0]; first.Kind != hardening.SourceNone || first.Destination != "/x" {
				t.Errorf("tmpfs: got %+v", first)
			}
		})
	}
}

// TestSurveyBelow: a recursive bind of the host's root brings proc and sysfs.
func TestSurveyBelow(t *testing.T) {
	v := &survey{}
	below, err := v.below("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, magic := range []int64{unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC} {
		if !slices.ContainsFunc(below, func(m hardening.SubmountFacts) bool { return m.Magic == magic }) {
			t.Errorf("got no file system of magic %#x below /: %v", magic, below)
		}
	}
}

func TestNamespaceAt(t *testing.T) {
	for kind := range map[string]bool{"net": true, "ipc": true, "uts": true, "mnt": true, "cgroup": true, "user": true, "pid": true} {
		got, ok := namespaceAt("/proc/self/ns/" + kind)
		if !ok || got.Kind != kind || !got.Host {
			t.Errorf("%s: got %+v, %v, want this process's own", kind, got, ok)
		}
	}
	for _, path := range []string{"/proc/self/status", "/nonexistent", "/dev/null"} {
		if got, ok := namespaceAt(path); ok {
			t.Errorf("%s: got %+v, want nothing", path, got)
		}
	}
}
