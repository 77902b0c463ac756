//go:build engines

package engines

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// limitFile is one limit by its name in each cgroup version.
type limitFile struct{ controller, v1, v2 string }

var (
	memoryLimit = limitFile{"memory", "memory.limit_in_bytes", "memory.max"}
	pidsLimit   = limitFile{"pids", "pids.max", "pids.max"}
	freezeState = limitFile{"freezer", "freezer.state", "cgroup.freeze"}
)

// cgroupRoots are the mount points of all hierarchies, v1 and v2.
func cgroupRoots() []string {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	var roots []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[2] == "cgroup" || f[2] == "cgroup2" {
			roots = append(roots, f[1])
		}
	}
	return roots
}

// unified says that there is only the v2 hierarchy.
func unified() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err == nil
}

// cgroupsBelow lists dir and every cgroup in it, parents first.
func cgroupsBelow(dir string) []string {
	var dirs []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}

// read gives the value of the limit for the container whose cgroup has id as
// its last element, wherever the engine put it below the ring's parent.
func (f limitFile) read(t *testing.T, id string) string {
	t.Helper()
	root, file := "/sys/fs/cgroup/"+f.controller, f.v1
	if unified() {
		root, file = "/sys/fs/cgroup", f.v2
	}
	for _, dir := range cgroupsBelow(filepath.Join(root, theRing.name)) {
		if filepath.Base(dir) != id {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	t.Fatalf("no %s cgroup of container %s below %s", f.controller, id, theRing.name)
	return ""
}

// frozen is the freezer's own word for a paused container.
func frozen() string {
	if unified() {
		return "1"
	}
	return "FROZEN"
}
