package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

func saved(t *testing.T) (dir string, r *Record) {
	t.Helper()
	dir = t.TempDir()
	r = &Record{ID: "c1", Audit: "/a", Policy: spec.Policy{Profile: "sage"}}
	if err := Save(dir, r); err != nil {
		t.Fatal(err)
	}
	return dir, r
}

// Proves: S-020.
func TestSaveLoad(t *testing.T) {
	dir, want := saved(t)
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(dir, Name))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file for its owner only", info, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want the one file", entries, err)
	}
}

func TestLoadErrors(t *testing.T) {
	if _, err := Load(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v, want fs.ErrNotExist", err)
	}
	tests := []struct{ name, from, to, want string }{
		{"cut short", "}", "", "unexpected end"},
		{"another version", `"version":1`, `"version":2`, "version: saw 2, want 1"},
		{"another policy", `"profile":"sage"`, `"profile":"agent"`, "policy: saw one with digest"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, _ := saved(t)
			path := filepath.Join(dir, Name)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			before := string(data)
			after := before[:len(before)-len(tt.from)] // the last one, for a file that is cut short
			if tt.to != "" {
				after = strings.Replace(before, tt.from, tt.to, 1)
			}
			if err := os.WriteFile(path, []byte(after), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = Load(dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) || errcode.Of(err) != errcode.StateInvalid {
				t.Errorf("got %v, want %q with %s", err, tt.want, errcode.StateInvalid)
			}
		})
	}
}
