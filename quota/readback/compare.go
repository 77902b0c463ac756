package readback

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/spec"
)

// Expected says what the kernel is to show for r once that is written: absent,
// 0 and negative limits are none. There is no swap and no burst, and out of
// memory the container dies as a whole, whatever r says (S-132, S-133). The
// kernel counts memory in pages of page bytes and rounds down to them.
func Expected(r *specs.LinuxResources, page int64) Limits {
	l := Limits{
		CPUQuota: Unlimited, CPUPeriod: spec.CPUPeriod, MemoryBytes: Unlimited, OOMGroup: true, Processes: Unlimited,
	}
	if r.CPU != nil {
		l.CPUQuota = limit(r.CPU.Quota)
		if p := r.CPU.Period; p != nil && *p != 0 {
			l.CPUPeriod = int64(*p)
		}
	}
	if r.Memory != nil {
		if n := limit(r.Memory.Limit); n > 0 {
			l.MemoryBytes = n / page * page
		}
	}
	if r.Pids != nil {
		l.Processes = limit(r.Pids.Limit)
	}
	return l
}

// HugePages gives a line for every limit on huge pages that unified states, which
// memory.max does not count.
func HugePages(dir fs.FS, unified map[string]string) ([]Line, error) {
	var lines []Line
	for _, name := range slices.Sorted(maps.Keys(unified)) {
		if !strings.HasPrefix(name, "hugetlb.") {
			continue
		}
		got, err := readLine(dir, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		lines = append(lines, Line{name, strings.TrimSpace(unified[name]), got})
	}
	return lines, nil
}

func limit(n *int64) int64 {
	if n == nil || *n <= 0 {
		return Unlimited
	}
	return *n
}

// Line is one file, or one property of systemd's, and what it is to hold.
type Line struct {
	Name, Want, Got string
}

// OK says whether it does.
func (l Line) OK() bool { return l.Want == l.Got }

// String is for messages: "memory.max: saw max, want 1048576".
func (l Line) String() string { return fmt.Sprintf("%s: saw %s, want %s", l.Name, l.Got, l.Want) }

// Compare gives a line for every limit, in the kernel's own words.
func Compare(want, got Limits) []Line {
	return []Line{
		{"cpu.max", want.cpu(), got.cpu()},
		{"cpu.max.burst", text(want.CPUBurst), text(got.CPUBurst)},
		{"memory.max", text(want.MemoryBytes), text(got.MemoryBytes)},
		{"memory.swap.max", text(want.SwapBytes), text(got.SwapBytes)},
		{"memory.oom.group", bit(want.OOMGroup), bit(got.OOMGroup)},
		{"pids.max", text(want.Processes), text(got.Processes)},
	}
}

// Complete refuses an expectation that leaves something without a limit: there
// is no hard limit in it that could be read back.
func (l Limits) Complete() error {
	for _, line := range Compare(l, Limits{}) {
		if strings.HasPrefix(line.Want, "max") {
			return fmt.Errorf("%s: saw no limit, want one", line.Name)
		}
	}
	return nil
}

// Differences is an error that names every line that is not as it is to be.
func Differences(lines []Line) error {
	var problems []string
	for _, l := range lines {
		if !l.OK() {
			problems = append(problems, l.String())
		}
	}
	if problems == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(problems, "; "))
}

func (l Limits) cpu() string { return text(l.CPUQuota) + " " + text(l.CPUPeriod) }

func text(n int64) string {
	if n == Unlimited {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
