package hardening

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// Tighter accepts an update of a running container's limits that lifts none of
// the current ones. As in runc an absent value and a 0 leave a limit as it is,
// and -1 lifts it. What an update cannot change (devices, huge pages, network,
// RDMA, swappiness) is not looked at: engines send it all the same.
func Tighter(current, update *specs.LinuxResources) error {
	if update == nil {
		return nil
	}
	if current == nil {
		current = &specs.LinuxResources{}
	}
	for _, judge := range []func(current, update *specs.LinuxResources) error{
		tighterMemory, tighterCPU, tighterSets, tighterPids, tighterIO, tighterUnified,
	} {
		if err := judge(current, update); err != nil {
			return errcode.Wrap(errcode.PermissionDenied, "update the container", err)
		}
	}
	return nil
}

// value is that of a limit, 0 where there is none.
func value[T int64 | uint64 | uint16](p *T) T {
	if p == nil {
		return 0
	}
	return *p
}

// raises tells whether an update lifts a limit; "no limit" is 0 or -1 in the
// current value and -1 in the update.
func raises(current, update int64) bool {
	switch {
	case update == 0:
		return false
	case update < 0:
		return true
	}
	return current > 0 && update > current
}

// effective is the limit after the update.
func effective(current, update int64) int64 {
	if update == 0 {
		return current
	}
	return update
}

func raised(field string, current, update int64) error {
	return denied(field, "saw %d, want at most %d: limits of a running container are not raised", update, current)
}

func tighterMemory(current, update *specs.LinuxResources) error {
	const field = "memory."
	if update.Memory == nil {
		return nil
	}
	was, to := specs.LinuxMemory{}, *update.Memory
	if current.Memory != nil {
		was = *current.Memory
	}
	limit, swap := effective(value(was.Limit), value(to.Limit)), effective(value(was.Swap), value(to.Swap))
	switch {
	case raises(value(was.Limit), value(to.Limit)):
		return raised(field+"limit", value(was.Limit), value(to.Limit))
	case raises(value(was.Swap), value(to.Swap)):
		return raised(field+"swap", value(was.Swap), value(to.Swap))
	case value(was.Swap) > 0 && swap-limit > value(was.Swap)-value(was.Limit):
		// The field is the sum of both: with less memory the rest would be swap.
		return denied(field+"swap", "saw a limit of %d without it, want at most %d: it counts memory and swap together", limit, limit)
	case value(to.Reservation) < 0, limit > 0 && value(to.Reservation) > limit:
		return raised(field+"reservation", limit, value(to.Reservation))
	}
	return judgeMemory(&to)
}

func tighterCPU(current, update *specs.LinuxResources) error {
	const field = "cpu."
	if update.CPU == nil {
		return nil
	}
	was, to := specs.LinuxCPU{}, *update.CPU
	if current.CPU != nil {
		was = *current.CPU
	}
	if err := tighterBandwidth(was, to); err != nil {
		return err
	}
	shares := value(was.Shares)
	if shares == 0 {
		shares = 1024 // the kernel's default
	}
	switch {
	case value(to.Burst) > value(was.Burst):
		return raised(field+"burst", int64(value(was.Burst)), int64(value(to.Burst)))
	case value(to.Shares) > shares:
		return raised(field+"shares", int64(shares), int64(value(to.Shares)))
	case to.Idle != nil && *to.Idle < value(was.Idle):
		return denied(field+"idle", "saw %d, want %d", *to.Idle, value(was.Idle))
	}
	return judgeCPU(&to)
}

// tighterBandwidth wants both values or neither: to one alone the kernel is
// told a default for the other, which is no limit.
func tighterBandwidth(was, to specs.LinuxCPU) error {
	const field = "cpu.quota"
	quota, period := value(to.Quota), value(to.Period)
	switch {
	case quota == 0 && period == 0:
		return nil
	case quota < 0:
		return denied(field, "saw %d, want a limit", quota)
	case quota == 0 || period == 0:
		return denied(field, "saw %d of every %d µs, want both values in one update", quota, period)
	}
	most, per := bandwidth(was.Quota, was.Period)
	if most > 0 && !atMost(quota, period, most, per) {
		return denied(field, "saw %s, want at most %s", bandwidthText(quota, period), bandwidthText(most, per))
	}
	return nil
}

// tighterSets wants CPUs and memory nodes out of those that there are now.
func tighterSets(current, update *specs.LinuxResources) error {
	if update.CPU == nil || current.CPU == nil {
		return nil
	}
	for _, set := range []struct{ field, was, to string }{
		{"cpu.cpus", current.CPU.Cpus, update.CPU.Cpus},
		{"cpu.mems", current.CPU.Mems, update.CPU.Mems},
	} {
		if set.was == "" || set.to == "" {
			continue
		}
		was, ok := parseSet(set.was)
		to, fine := parseSet(set.to)
		if !ok || !fine || !contains(was, to) {
			return denied(set.field, "saw %.80q, want a part of %.80q", set.to, set.was)
		}
	}
	return nil
}

// span is a range of numbers, both ends included.
type span struct{ from, to uint64 }

// parseSet reads the list format of cpuset(7), as "0-3,8".
func parseSet(text string) ([]span, bool) {
	var out []span
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err != nil || err2 != nil || from > to {
			return nil, false
		}
		out = append(out, span{from, to})
	}
	return out, true
}

func contains(whole, part []span) bool {
	for _, s := range part {
		for n := s.from; n <= s.to; n++ {
			if !slices.ContainsFunc(whole, func(w span) bool { return n >= w.from && n <= w.to }) {
				return false
			}
		}
	}
	return true
}

// tighterPids is for the one limit where 0 is the strictest value and not an
// absent one.
func tighterPids(current, update *specs.LinuxResources) error {
	if update.Pids == nil || update.Pids.Limit == nil {
		return nil
	}
	var was int64
	if current.Pids != nil {
		was = value(current.Pids.Limit)
	}
	if to := *update.Pids.Limit; raises(was, to) {
		return raised("pids.limit", was, to)
	}
	return nil
}

func tighterIO(current, update *specs.LinuxResources) error {
	if update.BlockIO == nil {
		return nil
	}
	was, to := specs.LinuxBlockIO{}, *update.BlockIO
	if current.BlockIO != nil {
		was = *current.BlockIO
	}
	for _, list := range []struct {
		field   string
		was, to []specs.LinuxThrottleDevice
	}{
		{"throttleReadBpsDevice", was.ThrottleReadBpsDevice, to.ThrottleReadBpsDevice},
		{"throttleWriteBpsDevice", was.ThrottleWriteBpsDevice, to.ThrottleWriteBpsDevice},
		{"throttleReadIOPSDevice", was.ThrottleReadIOPSDevice, to.ThrottleReadIOPSDevice},
		{"throttleWriteIOPSDevice", was.ThrottleWriteIOPSDevice, to.ThrottleWriteIOPSDevice},
	} {
		for _, d := range list.to {
			if rate := rateOf(list.was, d); rate != 0 && (d.Rate == 0 || d.Rate > rate) {
				return denied("blockIO."+list.field, "saw %d, want at most %d and not 0", d.Rate, rate)
			}
		}
	}
	return tighterWeights(was, to)
}

// rateOf gives the rate that holds for a device now: the last one said.
func rateOf(list []specs.LinuxThrottleDevice, of specs.LinuxThrottleDevice) uint64 {
	var rate uint64
	for _, d := range list {
		if d.Major == of.Major && d.Minor == of.Minor {
			rate = d.Rate
		}
	}
	return rate
}

// tighterWeights compares each weight with the one that held before, which is
// the general one for a device without its own.
func tighterWeights(was, to specs.LinuxBlockIO) error {
	const field, common = "blockIO.weight", 100 // the kernel's default on cgroup v2, the lower of two
	most := value(was.Weight)
	if most == 0 {
		most = common
	}
	if value(to.Weight) > most || value(to.LeafWeight) > max(most, value(was.LeafWeight)) {
		return raised(field, int64(most), int64(max(value(to.Weight), value(to.LeafWeight))))
	}
	for _, d := range to.WeightDevice {
		least := most
		for _, w := range was.WeightDevice {
			if w.Major == d.Major && w.Minor == d.Minor && w.Weight != nil {
				least = *w.Weight
			}
		}
		if value(d.Weight) > least || value(d.LeafWeight) > least {
			return raised(field+"Device", int64(least), int64(max(value(d.Weight), value(d.LeafWeight))))
		}
	}
	return nil
}

// tighterUnified compares raw files by the number in them, where the current
// limits have one for it.
func tighterUnified(current, update *specs.LinuxResources) error {
	for _, key := range slices.Sorted(maps.Keys(update.Unified)) {
		was, had := current.Unified[key]
		limit, ok := parseLimit(was)
		lower := ok && below(update.Unified[key], limit)
		if had && was != update.Unified[key] && !lower {
			return denied("unified", "saw another value for %.40q, want the current one or a smaller number", key)
		}
	}
	return judgeUnified("unified", update.Unified, currentLimits(current))
}

func currentLimits(r *specs.LinuxResources) limits {
	l := limits{period: spec.CPUPeriod}
	if r.Memory != nil {
		l.memory = value(r.Memory.Limit)
	}
	if r.Pids != nil {
		l.pids = value(r.Pids.Limit)
	}
	if r.CPU != nil {
		l.quota, l.period = bandwidth(r.CPU.Quota, r.CPU.Period)
	}
	return l
}
