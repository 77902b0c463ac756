package readback

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// Lower is a limit of a cgroup above the container's that is lower than the
// container's own, so that less than that is what it has. Others below the same
// cgroup share it.
type Lower struct {
	Cgroup string `json:"cgroup"` // from the root of the hierarchy: "/kubepods/pod1"
	File   string `json:"file"`
	Limit  string `json:"limit"` // as in the file
}

// Above lists the limits of the cgroups above name that are lower than l. root
// is the directory of the hierarchy's root, which itself has none.
func Above(root fs.FS, name string, l Limits) ([]Lower, error) {
	var lower []Lower
	for dir := path.Dir(clean(name)); dir != "."; dir = path.Dir(dir) {
		found, err := lowerIn(root, dir, l)
		if err != nil {
			return nil, err
		}
		lower = append(lower, found...)
	}
	return lower, nil
}

// clean makes of a cgroup's path what fs.FS takes.
func clean(name string) string {
	if name = path.Clean("/" + name)[1:]; name == "" {
		return "."
	}
	return name
}

func lowerIn(root fs.FS, dir string, l Limits) ([]Lower, error) {
	above := Limits{CPUQuota: Unlimited, MemoryBytes: Unlimited, Processes: Unlimited}
	var lower []Lower
	for _, file := range []struct {
		name  string
		into  func(string) error
		lower func() bool
	}{
		{"cpu.max", above.readCPU, func() bool { return lessTime(above, l) }},
		{"memory.max", number(&above.MemoryBytes), func() bool { return less(above.MemoryBytes, l.MemoryBytes) }},
		{"pids.max", number(&above.Processes), func() bool { return less(above.Processes, l.Processes) }},
	} {
		line, err := readLine(root, path.Join(dir, file.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a controller that is not enabled there limits nothing
		}
		if err == nil {
			err = file.into(line)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join("/", dir, file.name), err)
		}
		if file.lower() {
			lower = append(lower, Lower{"/" + dir, file.name, line})
		}
	}
	return lower, nil
}

func less(a, b int64) bool { return a != Unlimited && (b == Unlimited || a < b) }

// lessTime compares shares, whatever their periods. Quotas are below 2^45 µs,
// and periods are 1 s at most.
func lessTime(a, b Limits) bool {
	if a.CPUQuota == Unlimited || b.CPUQuota == Unlimited {
		return less(a.CPUQuota, b.CPUQuota)
	}
	return float64(a.CPUQuota)*float64(b.CPUPeriod) < float64(b.CPUQuota)*float64(a.CPUPeriod)
}
