//go:build k8s

package k8s

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sage-sandbox/sage/integration/harness"
)

// traces are what pods can leave on a node, by kind, as lines of text.
type traces map[string][]string

// lookAround reads the node as it is now.
func lookAround() (traces, error) {
	found := traces{}
	var errs []error
	for kind, read := range map[string]func() ([]string, error){
		"state":     func() ([]string, error) { return names(stateRoot + "/*") },
		"bundle":    func() ([]string, error) { return names(bundles + "/*") },
		"sandbox":   func() ([]string, error) { return names("/run/containerd/io.containerd.*/sandboxes/*") },
		"namespace": func() ([]string, error) { return names("/run/netns/*") },
		"link":      func() ([]string, error) { return names("/sys/class/net/veth*") },
		"pod":       func() ([]string, error) { return names("/var/lib/kubelet/pods/*") },
		"snapshot": func() ([]string, error) {
			return names(quotaMount + "/containerd/io.containerd.snapshotter.*/snapshots/*")
		},
		"cgroup":  podCgroups,
		"mount":   mounts,
		"process": shims,
		"project": projects,
	} {
		lines, err := read()
		errs = append(errs, err)
		found[kind] = lines
	}
	return found, errors.Join(errs...)
}

// added are the lines that were not there before.
func (is traces) added(was traces) []string {
	var lines []string
	for _, kind := range slices.Sorted(maps.Keys(is)) {
		for _, line := range is[kind] {
			if !slices.Contains(was[kind], line) {
				lines = append(lines, kind+" "+line)
			}
		}
	}
	return lines
}

func names(pattern string) ([]string, error) { return filepath.Glob(pattern) }

// podCgroups are those of pods and what is in them.
func podCgroups() ([]string, error) {
	var found []string
	err := filepath.WalkDir(cgroups, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went while we walked
		}
		if err == nil && d.IsDir() && strings.Contains(path, "/pod") {
			found = append(found, path)
		}
		return err
	})
	return found, err
}

func mounts() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	var found []string
	for line := range strings.Lines(string(text)) {
		// Fields 5 on; before them are numbers that change with every mount.
		if f := strings.SplitN(strings.TrimSpace(line), " ", 5); len(f) == 5 {
			found = append(found, f[4])
		}
	}
	return found, err
}

// shims are those and what is of sage besides: whatever a container's own
// process would be, its cgroup tells of it.
func shims() ([]string, error) {
	processes, err := harness.Processes()
	var found []string
	for _, p := range processes {
		if strings.Contains(p.Argv, "containerd-shim") || strings.Contains(p.Argv, "sage-runtime") || strings.Contains(p.Argv, "sage-egress") {
			found = append(found, p.String())
		}
	}
	return found, err
}

// projects are those that have anything on the disk; a limit without anything
// to limit is kept by design, until the id is given out again.
func projects() ([]string, error) {
	out, err := exec.Command("xfs_quota", "-x", "-c", "report -p -n -N -b -i", quotaMount).Output()
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		// id, blocks (used, soft, hard, warn, grace), inodes (the same).
		if len(f) > 6 && f[0] != "#0" && (f[1] != "0" || f[6] != "0") {
			found = append(found, f[0])
		}
	}
	return found, nil
}
