package runtime

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/runc/libcontainer"
)

// TestDeleteLeftovers: what a killed create can leave in its state directory,
// short of a cgroup, which the kernel ring makes for real.
func TestDeleteLeftovers(t *testing.T) {
	tests := map[string]map[string]string{
		"nothing":           nil,
		"empty directory":   {},
		"record cut off":    {pendingName: `{"cgroups":{"na`},
		"record of nothing": {pendingName: `{}`},
		"temporary state":   {"state-123": `{`},
	}
	for name, files := range tests {
		t.Run(name, func(t *testing.T) {
			h := &Host{Root: t.TempDir()}
			dir := filepath.Join(h.Root, "c")
			if files != nil {
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for file, content := range files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.Delete("c", true); err != nil {
				t.Errorf("got %v, want none with force", err)
			}
			if entries, _ := os.ReadDir(h.Root); len(entries) != 0 {
				t.Errorf("got %v left", entries)
			}
			if err := h.Delete("c", false); !errors.Is(err, libcontainer.ErrNotExist) {
				t.Errorf("got %v, want %v without force", err, libcontainer.ErrNotExist)
			}
		})
	}
}

// TestDeleteStaysBelowRoot: an id is checked before it becomes part of a path
// that is removed.
func TestDeleteStaysBelowRoot(t *testing.T) {
	parent := t.TempDir()
	h := &Host{Root: filepath.Join(parent, "root")}
	for _, dir := range []string{h.Root, filepath.Join(parent, "other")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"", ".", "..", "../other", "a/../../other", "/", "x\x00y"} {
		if err := h.Delete(id, true); err == nil {
			t.Errorf("%q: got no error", id)
		}
	}
	for _, dir := range []string{h.Root, filepath.Join(parent, "other")} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}

// TestDeleteWhileCreating: a delete without force must not pull the directory
// from under a create that another process is in the middle of.
func TestDeleteWhileCreating(t *testing.T) {
	h := &Host{Root: t.TempDir()}
	dir := filepath.Join(h.Root, "c")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	record, err := writePending(h.Root, "c", &libcontainer.State{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.Delete("c", false); !errors.Is(err, libcontainer.ErrNotExist) {
			t.Errorf("got %v, want %v", err, libcontainer.ErrNotExist)
		}
		if _, err := os.Stat(filepath.Join(dir, pendingName)); err != nil {
			t.Fatal(err)
		}
	}
	record.Close() // as the death of the other process does
	_ = h.Delete("c", false)
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory of a dead create is left")
	}
}
