package runtime

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/cgroups"
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

// creating is a container "c" in the middle of its create.
func creating(t *testing.T) (h *Host, dir string, record *os.File) {
	t.Helper()
	h = &Host{Root: t.TempDir()}
	dir = filepath.Join(h.Root, "c")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	record, err := writePending(h.Root, "c", &libcontainer.State{}, false)
	if err != nil {
		t.Fatal(err)
	}
	return h, dir, record
}

// TestDeleteWhileCreating: a delete without force must not pull the directory
// from under a create that another process is in the middle of.
func TestDeleteWhileCreating(t *testing.T) {
	h, dir, record := creating(t)
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

// TestDeleteFindsFinishedCreate: between not finding the container and taking
// the record's lock, the create can come to its end. The container is there
// then, and must not be treated as what a dead create has left.
func TestDeleteFindsFinishedCreate(t *testing.T) {
	h, dir, record := creating(t)
	record.Close()
	state := libcontainer.State{CgroupPaths: map[string]string{}}
	state.ID = "c"
	state.Config.Cgroups = &cgroups.Cgroup{Resources: &cgroups.Resources{}}
	data, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "state.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, force := range []bool{false, true} {
		c, err := h.deletePending("c", force)
		if c == nil || err != nil {
			t.Errorf("force %v: got %v, %v, want the container", force, c, err)
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

// TestPendingNamesOnlyNewCgroups: one that was there before may hold processes
// of somebody else, which delete --force must not kill.
func TestPendingNamesOnlyNewCgroups(t *testing.T) {
	root, cgroup := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "c"), 0o700); err != nil {
		t.Fatal(err)
	}
	record, err := writePending(root, "c", &libcontainer.State{CgroupPaths: map[string]string{
		"pids": cgroup, "memory": filepath.Join(cgroup, "new"),
	}}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer record.Close()
	data, err := os.ReadFile(record.Name())
	if err != nil {
		t.Fatal(err)
	}
	var got pending
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got.Paths, map[string]string{"memory": filepath.Join(cgroup, "new")}); diff != "" {
		t.Error(diff)
	}
}

// TestDeleteKeepsUnreadableState: state that is there but cannot be read is no
// leftover of a create. The container may well run.
func TestDeleteKeepsUnreadableState(t *testing.T) {
	h, dir, record := creating(t)
	record.Close()
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, force := range []bool{false, true} {
		if c, err := h.deletePending("c", force); c != nil || err == nil {
			t.Errorf("force %v: got %v, %v, want an error", force, c, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "state.json")); err != nil {
		t.Error(err)
	}
}
