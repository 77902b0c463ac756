package doctor

import (
	"slices"
	"strings"
)

// Names of findings that hard limits hang on.
const (
	controllerCPU    = "cgroup controller cpu"
	controllerMemory = "cgroup controller memory"
	controllerPIDs   = "cgroup controller pids"
	swapLimit        = "swap limit"
	quotaMount       = "quota mount"
)

// limitNeeds are the hard limits, by the names under which one that is missing
// is reported (S-010), each with the findings without which there is none.
var limitNeeds = []struct {
	limit string
	needs []string
}{
	{"cpu", []string{controllerCPU}},
	{"memory", []string{controllerMemory, swapLimit}},
	{LimitDisk, []string{quotaMount}},
	{"process_count", []string{controllerPIDs}},
}

// MissingLimit is a hard limit that cannot be enforced, and for want of what.
type MissingLimit struct {
	Limit string    `json:"limit"`
	Needs []Finding `json:"needs"`
}

// LimitDisk is what the disk limit is called among the missing.
const LimitDisk = "disk"

// HardLimits lists the limits that this host cannot enforce. What was not
// looked for counts as missing.
func HardLimits(findings []Finding) []MissingLimit {
	var missing []MissingLimit
	for _, l := range limitNeeds {
		m := MissingLimit{Limit: l.limit}
		for _, name := range l.needs {
			if f := find(findings, name); !f.OK {
				m.Needs = append(m.Needs, f)
			}
		}
		if m.Needs != nil {
			missing = append(missing, m)
		}
	}
	return missing
}

// Look is the part of [Check] that hard limits hang on, as far as it can be seen
// without making anything: every create begins with it. Here the cgroup root of
// host is where the container's own cgroup will be.
func Look(host Host) []Finding {
	var findings []Finding
	for _, p := range probes {
		if !isNeeded(p.name) {
			continue
		}
		if p.name == swapLimit {
			p.try = swapFile // which makes no cgroup
		}
		findings = append(findings, p.finding(p.try(host)))
	}
	return findings
}

func isNeeded(name string) bool {
	for _, l := range limitNeeds {
		if slices.Contains(l.needs, name) {
			return true
		}
	}
	return false
}

// Missing joins missing limits for a message: their names, and after them once
// each what is amiss and what to do about it.
func Missing(limits []MissingLimit) (names, why string) {
	var all, seen, reasons []string
	for _, l := range limits {
		all = append(all, l.Limit)
		for _, f := range l.Needs {
			if !slices.Contains(seen, f.Seen) {
				seen, reasons = append(seen, f.Seen), append(reasons, f.Seen+": "+f.Do)
			}
		}
	}
	return strings.Join(all, ", "), strings.Join(reasons, "; ")
}

// find is strict: what nobody looked for is not there.
func find(findings []Finding, name string) Finding {
	i := slices.IndexFunc(findings, func(f Finding) bool { return f.Name == name })
	if i < 0 {
		return Finding{Name: name, Level: LevelHardLimits, Seen: "not looked for"}
	}
	return findings[i]
}
