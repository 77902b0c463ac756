package hardening

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// restraining are files of cgroup v2 whose every value only restrains the
// cgroup that they are in. Not among them: what protects its memory from
// others (memory.min, memory.low), what takes CPUs away from others
// (cpuset.cpus.partition), what speeds it up (cpu.uclamp.*), and what governs
// the tree (cgroup.*).
var restraining = strings.Fields(`
	memory.high memory.swap.high memory.zswap.max memory.zswap.writeback
	cpuset.cpus cpuset.mems cpu.idle io.max io.latency misc.max rdma.max`)

// judgeUnified looks at raw files of the cgroup, which libcontainer writes after
// all others: so a limit of the policy must not be lifted here again.
func judgeUnified(field string, unified map[string]string, most limits) error {
	for _, key := range slices.Sorted(maps.Keys(unified)) {
		value := strings.TrimSpace(unified[key])
		if ok, want := unifiedAllowed(key, value, most); !ok {
			return denied(field, "saw %.40q, want %s", key, want)
		}
	}
	return nil
}

func unifiedAllowed(key, value string, most limits) (bool, string) {
	switch key {
	case "memory.swap.max":
		return value == "0", "it to be 0"
	case "memory.oom.group":
		return value == "1", "it to be 1"
	case "memory.min", "memory.low":
		// What protects it from others; kubelet writes that there is none.
		return value == "0", "it to be 0"
	case "memory.max":
		return below(value, most.memory), "a number of bytes not above the policy's limit"
	case "pids.max":
		return below(value, most.pids), "a number not above the policy's limit"
	case "cpu.max":
		return cpuMax(value, most), "a quota and a period not above the policy's limit"
	case "cpu.weight", "io.weight", "io.bfq.weight":
		return below(value, 100), "a number not above 100, the default"
	}
	huge := strings.HasPrefix(key, "hugetlb.") && (strings.HasSuffix(key, ".max") || strings.HasSuffix(key, ".rsvd.max"))
	return huge || slices.Contains(restraining, key), "only files that restrain the container"
}

func below(value string, most int64) bool {
	n, ok := parseLimit(value)
	return ok && (most <= 0 || n <= most)
}

func cpuMax(value string, most limits) bool {
	fields := strings.Fields(value)
	if len(fields) != 2 {
		return false
	}
	quota, ok := parseLimit(fields[0])
	period, err := strconv.ParseUint(fields[1], 10, 64)
	return ok && err == nil && period > 0 && (most.quota <= 0 || atMost(quota, period, most.quota, most.period))
}

// folded are the raw files that have a field of their own.
var folded = []string{"cpu.max", "memory.max", "pids.max"}

// FoldUnified puts the limits that r states as raw files into the fields that
// they have besides, where the lower one holds, and takes the raw ones away: a
// limit in two places would be read back, and compared by the next update,
// against the wrong one. Values that [Apply] or [Tighter] refuses are left.
func FoldUnified(r *specs.LinuxResources) {
	for _, key := range folded {
		if foldOne(r, key, strings.TrimSpace(r.Unified[key])) {
			delete(r.Unified, key)
		}
	}
}

func foldOne(r *specs.LinuxResources, key, value string) bool {
	if key == "cpu.max" {
		return foldCPU(r, value)
	}
	n, ok := parseLimit(value)
	switch {
	case !ok:
		return false
	case key == "pids.max":
		if r.Pids == nil {
			r.Pids = &specs.LinuxPids{}
		}
		lowest(&r.Pids.Limit, n)
	default:
		if r.Memory == nil {
			r.Memory = &specs.LinuxMemory{}
		}
		lowest(&r.Memory.Limit, n)
		// The field counts memory and swap together: the file said nothing of swap,
		// and there is to be none.
		lowest(&r.Memory.Swap, n)
	}
	return true
}

func foldCPU(r *specs.LinuxResources, value string) bool {
	if !cpuMax(value, limits{}) {
		return false
	}
	fields := strings.Fields(value)
	quota, _ := parseLimit(fields[0])
	period, _ := strconv.ParseUint(fields[1], 10, 64)
	if r.CPU == nil {
		r.CPU = &specs.LinuxCPU{}
	}
	if was, per := bandwidth(r.CPU.Quota, r.CPU.Period); was <= 0 || atMost(quota, period, was, per) {
		r.CPU.Quota, r.CPU.Period = &quota, &period
	}
	return true
}

// lowest keeps the lower of two limits; 0, -1 and nil are none.
func lowest(limit **int64, n int64) {
	if *limit == nil || **limit <= 0 || **limit > n {
		*limit = &n
	}
}

func (h *hardener) foldUnified(r *specs.LinuxResources) {
	for _, key := range folded {
		if value, ok := r.Unified[key]; ok {
			h.drop("linux.resources.unified."+key, value, "stated by the field of its own")
		}
	}
	FoldUnified(r)
	if len(r.Unified) == 0 {
		r.Unified = nil
	}
}

// memoryFiles sets what has no field. libcontainer writes swap by itself too,
// but tells systemd nothing of it, which writes what it was told whenever it
// reloads (S-132). With the group of victims the container dies as a whole, and
// not one process of it that others go on without (S-133).
func (h *hardener) memoryFiles(r *specs.LinuxResources) {
	if !h.facts.CgroupV2 {
		return
	}
	want := map[string]string{"memory.swap.max": "0", "memory.oom.group": "1"}
	if h.facts.NoSwapLimit {
		delete(want, "memory.swap.max")
	}
	if h.policy.Resources.RequireHardLimits {
		// The memory controller does not count them: whoever may have any of them
		// has that much more. Anybody can ask for one, without a mount or a right.
		for _, size := range h.facts.HugePages {
			want["hugetlb."+size+".max"], want["hugetlb."+size+".rsvd.max"] = "0", "0"
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if strings.TrimSpace(r.Unified[key]) == want[key] {
			continue
		}
		if r.Unified == nil {
			r.Unified = map[string]string{}
		}
		r.Unified[key] = want[key]
		h.add("linux.resources.unified."+key, want[key], "memory is limited for the container as a whole")
	}
}
