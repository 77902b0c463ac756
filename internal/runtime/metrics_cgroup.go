package runtime

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/cgroups"

	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/quota"
	"github.com/sage-sandbox/sage/quota/xfs"
)

func (r *reading) cgroup(c *Container) error {
	saved, err := c.c.State()
	if err != nil {
		return err
	}
	stats, err := c.c.Stats()
	if err != nil {
		return err
	}
	if stats.CgroupStats == nil {
		return errors.New("saw no cgroup, want the container's")
	}
	r.cpu(&stats.CgroupStats.CpuStats)
	r.memory(&stats.CgroupStats.MemoryStats, saved.CgroupPaths)
	r.pids(&stats.CgroupStats.PidsStats, saved.CgroupPaths)
	return nil
}

func (r *reading) cpu(s *cgroups.CpuStats) {
	seconds := func(ns uint64) float64 { return float64(ns) / float64(time.Second) }
	r.add("sage_cpu_seconds_total", seconds(s.CpuUsage.TotalUsage))
	r.add("sage_cpu_periods_total", float64(s.ThrottlingData.Periods))
	r.add("sage_cpu_throttled_periods_total", float64(s.ThrottlingData.ThrottledPeriods))
	r.add("sage_cpu_throttled_seconds_total", seconds(s.ThrottlingData.ThrottledTime))
}

// noLimit is what cgroup v1 has for no limit, a page less; v2's is higher.
const noLimit = 1<<63 - 1<<16

func (r *reading) memory(s *cgroups.MemoryStats, paths map[string]string) {
	r.add("sage_memory_usage_bytes", float64(s.Usage.Usage))
	inactive, v1 := s.Stats["total_inactive_file"]
	if !v1 {
		inactive = s.Stats["inactive_file"]
	}
	r.add("sage_memory_working_set_bytes", float64(s.Usage.Usage-min(inactive, s.Usage.Usage)))
	r.add("sage_memory_swap_bytes", float64(s.SwapOnlyUsage.Usage))
	if limit := s.Usage.Limit; limit > 0 && limit < noLimit {
		r.add("sage_memory_limit_bytes", float64(limit))
	}
	r.event("sage_memory_oom_kills_total", paths, "memory", "memory.oom_control", "memory.events", "oom_kill")
}

func (r *reading) pids(s *cgroups.PidsStats, paths map[string]string) {
	r.add("sage_pids", float64(s.Current))
	if s.Limit > 0 { // libcontainer's word for none is 0
		r.add("sage_pids_limit", float64(s.Limit))
	}
	r.event("sage_pids_refused_total", paths, "pids", "pids.events", "pids.events", "max")
}

// event adds one line of a flat keyed file (cgroups(7)), where the kernel has
// it. The paths are by controller for cgroup v1, and one under "" for v2, which
// has none of v1's where both are mounted.
func (r *reading) event(metric string, paths map[string]string, controller, v1, v2, key string) {
	path := filepath.Join(paths[""], v2)
	if dir, ok := paths[controller]; ok {
		path = filepath.Join(dir, v1)
	}
	if !filepath.IsAbs(path) {
		return // no cgroup of either kind
	}
	data, err := sys.ReadFile(path)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil && name == key {
			r.add(metric, float64(n))
		}
	}
}

// disk asks the kernel, which counts anyhow; nothing is walked. What a soft
// limit holds is not counted anywhere, and has no numbers here.
func (s *scrape) disk(r *reading, record *state.Record) error {
	m := s.mounts[record.Disk.Mount]
	if m == nil {
		var err error
		if m, err = xfs.Open(record.Disk.Mount); err != nil {
			return err
		}
		s.mounts[record.Disk.Mount] = m
	}
	if len(record.Disk.Places) > 0 {
		p, err := m.Find(xfs.Owner{ID: record.ID, Root: record.Disk.Root})
		if err != nil {
			return fmt.Errorf("the container's project: %w", err)
		}
		if err := r.project(m, "sage_disk_", p.Project); err != nil {
			return err
		}
	}
	for _, w := range record.Disk.Workspaces {
		if err := r.project(m, "sage_workspace_", quota.ProjectID(w.Project), Label{"place", w.Place}); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) project(m *xfs.Mount, prefix string, id quota.ProjectID, labels ...Label) error {
	u, err := m.Usage(id)
	if err != nil {
		return err
	}
	r.add(prefix+"used_bytes", float64(u.Bytes), labels...)
	r.add(prefix+"limit_bytes", float64(u.Hard.Bytes), labels...)
	r.add(prefix+"used_inodes", float64(u.Inodes), labels...)
	r.add(prefix+"limit_inodes", float64(u.Hard.Inodes), labels...)
	return nil
}
