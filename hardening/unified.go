package hardening

import (
	"maps"
	"slices"
	"strconv"
	"strings"
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
