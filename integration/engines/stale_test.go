//go:build engines

package engines

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// A ring that was killed leaves a record, a folder and cgroups. Only the record
// tells them from somebody else's, so that is what decides.
func TestRemoveStale(t *testing.T) {
	t.Setenv("SAGE_CACHE", t.TempDir())
	cases := []struct {
		name  string
		start string
		kept  bool
	}{
		{"dead", "1", false}, // a process with this test's pid, but another start
		{"alive", startTime(os.Getpid()), true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rec := leftRing(t, c.start)
			if err := removeStale(); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{rec.Dir, rec.path(), leftCgroup(rec)} {
				if _, err := os.Stat(path); (err == nil) != c.kept {
					t.Errorf("%s: got %v, want it kept: %v", path, err, c.kept)
				}
			}
		})
	}
}

// leftRing makes what a killed ring leaves.
func leftRing(t *testing.T, start string) record {
	t.Helper()
	rec := record{Pid: os.Getpid(), Start: start, Name: theRing.name + "-stale", Dir: filepath.Join(t.TempDir(), "ring")}
	text, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{recordsDir(), filepath.Join(rec.Dir, "docker"), leftCgroup(rec)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(rec.path(), text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.remove() })
	return rec
}

func leftCgroup(rec record) string {
	return filepath.Join(cgroupRoots()[0], rec.Name, "docker", "container")
}
