package runtime

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// TestHostFile: a file that others could have written decides nothing.
//
// Proves: S-045.
func TestHostFile(t *testing.T) {
	const good = "version: 1\ndefault_profile: agent\n"
	tests := []struct {
		name string
		make func(t *testing.T, path string)
		want string // part of the error, "" for none
	}{
		{"fine", func(*testing.T, string) {}, ""},
		{"group may write", func(t *testing.T, path string) { chmod(t, path, 0o664) }, "has mode 0664"},
		{"others may write", func(t *testing.T, path string) { chmod(t, path, 0o646) }, "has mode 0646"},
		{"others may replace it", func(t *testing.T, path string) { chmod(t, filepath.Dir(path), 0o777) }, "has mode 0777"},
		{"sticky directory", func(t *testing.T, path string) { chmod(t, filepath.Dir(path), 0o777|os.ModeSticky) }, ""},
		{
			"behind a link that others may replace",
			func(t *testing.T, path string) {
				t.Helper()
				dir := t.TempDir()
				target := filepath.Join(dir, "c.yaml")
				if err := os.Rename(path, target); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(target, path); err != nil {
					t.Fatal(err)
				}
				chmod(t, dir, 0o777)
			}, "has mode 0777",
		},
		{
			"directory",
			func(t *testing.T, path string) {
				t.Helper()
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				if err := os.Mkdir(path, 0o700); err != nil {
					t.Fatal(err)
				}
			}, "not a regular file",
		},
		{"asked for and missing", func(_ *testing.T, path string) { _ = os.Remove(path) }, "no such file"},
		{"unknown key", func(t *testing.T, path string) { write(t, path, good+"profile: sage\n") }, "profile"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			write(t, path, good)
			tt.make(t, path)
			got, err := (&Host{Config: path, ConfigAsked: true}).Policy()
			if tt.want == "" {
				if err != nil || got.DefaultProfile != "agent" {
					t.Errorf("got %v, %v, want it read", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || errcode.Of(err) != errcode.ConfigInvalid {
				t.Errorf("got %v, want %q with %s", err, tt.want, errcode.ConfigInvalid)
			}
		})
	}
	got, err := (&Host{Config: "/nonexistent/config.yaml"}).Policy()
	if err != nil || got.DefaultProfile != "sage" {
		t.Errorf("without a file: got %v, %v, want the built-in profiles", got, err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
