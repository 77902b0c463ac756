//go:build vm

package hardlimits

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// group makes a cgroup below above, with these files and the controllers on for
// what will be in it, and returns its path from the root.
func group(t *testing.T, above string, files map[string]string) string {
	t.Helper()
	path := filepath.Join(above, harness.NewID()+"-slice")
	dir := filepath.Join(cgroups, path)
	check(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() {
		harness.Eventually(t, "the cgroup can be removed", func() bool {
			err := os.Remove(dir)
			return err == nil || errors.Is(err, fs.ErrNotExist)
		})
	})
	if files == nil {
		return path
	}
	for name, value := range files {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(value), 0))
	}
	check(t, os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+cpu +memory +pids"), 0))
	return path
}

// at is an edit that puts the container elsewhere.
func at(path string) func(*specs.Spec) {
	return func(s *specs.Spec) { s.Linux.CgroupsPath = path }
}

func memory(bytes int64) func(*specs.Spec) {
	return func(s *specs.Spec) { s.Linux.Resources.Memory.Limit = &bytes }
}

// raw is an edit that states a limit as a file of the cgroup.
func raw(name, value string) func(*specs.Spec) {
	return func(s *specs.Spec) {
		if s.Linux.Resources == nil {
			s.Linux.Resources = &specs.LinuxResources{}
		}
		if s.Linux.Resources.Unified == nil {
			s.Linux.Resources.Unified = map[string]string{}
		}
		s.Linux.Resources.Unified[name] = value
	}
}
