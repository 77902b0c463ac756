package hardening

import (
	"fmt"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/spec"
)

// resources makes the policy's limits those of the cgroup. What the bundle asks
// for below them the policy has taken in already, and where it has not the
// lower one holds.
func (h *hardener) resources() error {
	r := h.spec.Linux.Resources
	if r.Memory == nil {
		r.Memory = &specs.LinuxMemory{}
	}
	if r.CPU == nil {
		r.CPU = &specs.LinuxCPU{}
	}
	for _, err := range []error{
		judgeMemory(r.Memory), judgeCPU(r.CPU), judgeUnified("linux.resources.unified", r.Unified, h.ceiling()),
	} {
		if err != nil {
			return err
		}
	}
	h.foldUnified(r)
	h.memoryLimits(r.Memory)
	h.cpuLimits(r.CPU)
	h.pidsLimit(r)
	h.memoryFiles(r)
	return h.wholePercent(r.CPU)
}

// lower sets a limit to at most the policy's; 0, -1 and nil are no limit.
func (h *hardener) lower(field string, limit **int64, most int64) {
	was := *limit
	switch {
	case most <= 0 || was != nil && *was > 0 && *was <= most:
		return
	case was == nil || *was == 0:
		h.add(field, fmt.Sprint(most), "the policy's limit")
	default:
		h.tighten(field, fmt.Sprint(*was), fmt.Sprint(most), "the policy's limit")
	}
	*limit = &most
}

func (h *hardener) memoryLimits(m *specs.LinuxMemory) {
	const field = "linux.resources.memory."
	h.lower(field+"limit", &m.Limit, h.policy.Resources.MemoryBytes)
	if m.Limit == nil || *m.Limit <= 0 {
		return
	}
	if h.facts.NoSwapLimit {
		m.Swap = nil
	} else {
		// The field counts memory and swap together, so this means no swap.
		h.lower(field+"swap", &m.Swap, *m.Limit)
	}
	if r := m.Reservation; r != nil && *r != 0 && (*r < 0 || *r > *m.Limit) {
		h.tighten(field+"reservation", fmt.Sprint(*r), fmt.Sprint(*m.Limit), "not above the limit")
		m.Reservation = m.Limit
	}
}

// cpuLimits writes the policy's share with its own period, unless the bundle's
// own is the smaller share.
func (h *hardener) cpuLimits(c *specs.LinuxCPU) {
	const field = "linux.resources.cpu."
	most := h.policy.Resources.CPUQuota
	if quota, period := bandwidth(c.Quota, c.Period); most > 0 && !atMost(quota, period, most, spec.CPUPeriod) {
		h.tellBandwidth(field+"quota", c, most)
		c.Quota, c.Period = &most, new(uint64)
		*c.Period = spec.CPUPeriod
	}
	if c.Burst != nil && *c.Burst != 0 {
		h.drop(field+"burst", fmt.Sprint(*c.Burst), "CPU time that was not used is not kept")
	}
	c.Burst = nil
}

func (h *hardener) tellBandwidth(field string, c *specs.LinuxCPU, most int64) {
	now := bandwidthText(most, spec.CPUPeriod)
	if quota, period := bandwidth(c.Quota, c.Period); quota != 0 {
		h.tighten(field, bandwidthText(quota, period), now, "the policy's limit")
	} else {
		h.add(field, now, "the policy's limit")
	}
}

func bandwidthText(quota int64, period uint64) string {
	return fmt.Sprintf("%d of every %d µs", quota, period)
}

// bandwidth gives the kernel's default for an absent period.
func bandwidth(quota *int64, period *uint64) (int64, uint64) {
	var q int64
	p := uint64(spec.CPUPeriod)
	if quota != nil {
		q = *quota
	}
	if period != nil && *period != 0 {
		p = *period
	}
	return q, p
}

// atMost compares two shares of CPU time without rounding. Quotas and periods
// that the kernel takes are below 2^45, so that larger ones are no limit.
func atMost(quota int64, period uint64, mostQuota int64, mostPeriod uint64) bool {
	if quota <= 0 || quota > 1<<45 || period > 1<<20 {
		return false
	}
	return float64(quota)*float64(mostPeriod) <= float64(mostQuota)*float64(period)
}

// wholePercent is for where systemd makes the cgroup.
func (h *hardener) wholePercent(c *specs.LinuxCPU) error {
	const field = "linux.resources.cpu.quota"
	if !h.facts.SystemdCgroup && !spec.IsSystemdPath(h.spec.Linux.CgroupsPath) {
		return nil
	}
	quota, period := bandwidth(c.Quota, c.Period)
	if err := WholePercent(field, c); err != nil || quota <= 0 {
		return err
	}
	h.tighten(field, bandwidthText(quota, period), bandwidthText(*c.Quota, *c.Period), "systemd keeps whole per cents of a core")
	return nil
}

// WholePercent rounds c's quota down to what systemd keeps: libcontainer would
// round up, and write more than was granted. It also makes the period sage's
// own, with which the least share, 1 ms, is one that the kernel takes. No quota
// stays none; one below the least is an error.
func WholePercent(field string, c *specs.LinuxCPU) error {
	quota, period := bandwidth(c.Quota, c.Period)
	if quota <= 0 {
		return nil
	}
	const perCent = spec.CPUPeriod / 100
	whole := perCent * int64(float64(quota)*100/float64(period))
	if whole < perCent {
		return denied(field, "saw %s, want at least one per cent of a core: systemd keeps whole per cents", bandwidthText(quota, period))
	}
	c.Quota, c.Period = &whole, new(uint64)
	*c.Period = spec.CPUPeriod
	return nil
}

func (h *hardener) pidsLimit(r *specs.LinuxResources) {
	if r.Pids == nil {
		r.Pids = &specs.LinuxPids{}
	}
	if limit := r.Pids.Limit; limit != nil && *limit == 0 {
		// libcontainer takes 0 for the fewest, not for no limit.
		*limit = 1
	}
	h.lower("linux.resources.pids.limit", &r.Pids.Limit, h.policy.Resources.MaxProcesses)
}

func judgeMemory(m *specs.LinuxMemory) error {
	if m != nil && m.DisableOOMKiller != nil && *m.DisableOOMKiller {
		return denied("linux.resources.memory.disableOOMKiller", "want false: a container above its limit would stop for good, and be counted as running")
	}
	return nil
}

func judgeCPU(c *specs.LinuxCPU) error {
	if c == nil {
		return nil
	}
	if c.RealtimeRuntime != nil && *c.RealtimeRuntime != 0 || c.RealtimePeriod != nil && *c.RealtimePeriod != 0 {
		return denied("linux.resources.cpu.realtimeRuntime", "want none: a realtime process starves the others on its CPU")
	}
	return nil
}

// ceiling is what keys of [specs.LinuxResources.Unified] may not exceed.
func (h *hardener) ceiling() limits {
	r := h.policy.Resources
	return limits{memory: r.MemoryBytes, pids: r.MaxProcesses, quota: r.CPUQuota, period: spec.CPUPeriod}
}

// limits are those of a cgroup that its files state; 0 is none.
type limits struct {
	memory, pids, quota int64
	period              uint64
}

func parseLimit(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n > 0
}
