package runtime

import (
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/sirupsen/logrus"

	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/internal/sys"
)

// leaveToSampler takes from r, in soft mode, the limits for which this host has
// no controller: libcontainer would fail on them. [newPlan] finds them not held,
// and the sampler takes their place.
func leaveToSampler(r *cgroups.Resources, record *state.Record) {
	if record.Policy.Resources.RequireHardLimits {
		return
	}
	have := controllers()
	if have == nil {
		return // libcontainer says it better
	}
	for name, drop := range map[string]func(){
		"memory": func() { r.Memory, r.MemoryReservation, r.MemorySwap, r.MemorySwappiness = 0, 0, 0, nil },
		"pids":   func() { r.PidsLimit = nil },
		"cpu":    func() { r.CpuQuota, r.CpuPeriod, r.CpuShares, r.CpuBurst, r.CpuWeight = 0, 0, 0, nil, 0 },
	} {
		if slices.Contains(have, name) {
			continue
		}
		drop()
		maps.DeleteFunc(r.Unified, func(key, _ string) bool { return strings.HasPrefix(key, name+".") })
		logrus.Debugf("no %s controller: its limit is sampled", name)
	}
}

// controllers are those that a cgroup below can have; nil if that is not known.
func controllers() (names []string) {
	if cgroups.IsCgroup2UnifiedMode() {
		data, err := sys.ReadFile("/sys/fs/cgroup/cgroup.controllers")
		if err != nil {
			return nil
		}
		return strings.Fields(string(data))
	}
	data, err := sys.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		// Behind the dash: type, source, options of the file system.
		if _, tail, _ := strings.Cut(line, " - "); strings.HasPrefix(tail, "cgroup ") {
			options := strings.TrimSuffix(tail[strings.LastIndexByte(tail, ' ')+1:], "\n")
			names = append(names, strings.Split(options, ",")...)
		}
	}
	return names
}
