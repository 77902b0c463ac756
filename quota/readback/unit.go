package readback

import (
	"fmt"
	"math"
)

// Properties are those of a systemd unit, by name (org.freedesktop.systemd1(5)).
// systemd writes them to the cgroup again whenever it likes, as on a reload: a
// limit that holds in the files alone holds until then.
type Properties map[string]any

// second is the unit of CPUQuotaPerSecUSec, in µs.
const second = 1_000_000

// CompareUnit gives a line for every limit that systemd is to know too.
// memory.oom.group it has as OOMPolicy, which it gives a file for only where
// that is asked for as the unit is made, from version 253 on; it does not write
// that file again, so it is not among them.
func CompareUnit(want Limits, unit Properties, page int64) []Line {
	number := func(name string, n int64) Line {
		return Line{name, text(n), unit.number(name)}
	}
	lines := []Line{
		number("CPUQuotaPerSecUSec", want.CPUQuota),
		number("MemoryMax", want.MemoryBytes),
		number("MemorySwapMax", want.SwapBytes),
		number("TasksMax", want.Processes),
	}
	if want.CPUQuota != Unlimited && want.CPUPeriod > 0 {
		lines[0].Want = fmt.Sprint(uint64(want.CPUQuota) * second / uint64(want.CPUPeriod))
	}
	// What was asked for to the byte the kernel rounds.
	if n, ok := unit["MemoryMax"].(uint64); ok && n != math.MaxUint64 && page > 0 {
		lines[1].Got = fmt.Sprint(n / uint64(page) * uint64(page))
	}
	return lines
}

func (p Properties) number(name string) string {
	switch n, ok := p[name].(uint64); {
	case !ok:
		return "none"
	case n == math.MaxUint64: // infinity
		return "max"
	default:
		return fmt.Sprint(n)
	}
}
