package setup

import (
	"os"
	"path/filepath"
	"strings"
)

// mountPoint is one line of proc_pid_mountinfo(5).
type mountPoint struct {
	Device string // "major:minor"
	Path   string
	FSType string
}

// mountAt is what a path of path's leads to; nil where nothing is mounted.
func mountAt(path string) (*mountPoint, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return findMount(string(data), path), nil
}

// findMount takes the last one at path: what was mounted before it is covered.
func findMount(mountinfo, path string) (found *mountPoint) {
	for line := range strings.Lines(mountinfo) {
		place, kind, ok := strings.Cut(line, " - ")
		fields, kinds := strings.Fields(place), strings.Fields(kind)
		if ok && len(fields) > 4 && len(kinds) > 0 && unescape(fields[4]) == path {
			found = &mountPoint{Device: fields[2], Path: path, FSType: kinds[0]}
		}
	}
	return found
}

// unescape is the undo of what the kernel does to these in a path.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#").Replace(s)
}
