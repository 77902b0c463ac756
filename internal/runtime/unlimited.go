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
func leaveToSampler(r *cgroups.Resources, record *state.Record, have []string) {
	if record.Policy.Resources.RequireHardLimits || have == nil {
		return // not known: libcontainer says it better
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

// controllers are those that the cgroup which is to be made at paths can have;
// nil if that is not known. Under v1 libcontainer has a path for each.
func controllers(paths map[string]string) []string {
	if !cgroups.IsCgroup2UnifiedMode() {
		return slices.Collect(maps.Keys(paths))
	}
	data, err := sys.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}
