package doctor

import (
	"errors"
	"slices"

	"github.com/sage-sandbox/sage/spec"
)

// Names of findings that hard limits hang on.
const (
	controllerCPU    = "cgroup controller cpu"
	controllerMemory = "cgroup controller memory"
	controllerPIDs   = "cgroup controller pids"
	swapLimit        = "swap limit"
	quotaMount       = "quota mount"
	limitsWritten    = "hard limits"
)

// limitNeeds are the hard limits, by the names under which one that is missing
// is reported (S-010), each with the findings without which there is none.
var limitNeeds = []struct {
	limit string
	needs []string
}{
	{"cpu", []string{controllerCPU, limitsWritten}},
	{"memory", []string{controllerMemory, swapLimit, limitsWritten}},
	{"disk", []string{quotaMount, limitsWritten}},
	{"process_count", []string{controllerPIDs, limitsWritten}},
}

// MissingLimit is a hard limit that cannot be enforced, and for want of what.
type MissingLimit struct {
	Limit string    `json:"limit"`
	Needs []Finding `json:"needs"`
}

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

// find is strict: what nobody looked for is not there.
func find(findings []Finding, name string) Finding {
	i := slices.IndexFunc(findings, func(f Finding) bool { return f.Name == name })
	if i < 0 {
		return Finding{Name: name, Level: LevelHardLimits, Seen: "not looked for"}
	}
	return findings[i]
}

// Enforceable names the hard limits that the policy requires and this host
// cannot enforce; none if the policy requires none.
func Enforceable(policy spec.Policy, findings []Finding) (missingLimits []string) {
	if !policy.Resources.RequireHardLimits {
		return nil
	}
	for _, m := range HardLimits(findings) {
		missingLimits = append(missingLimits, m.Limit)
	}
	return missingLimits
}

// limitsNotWritten is what no host can mend.
func limitsNotWritten(Host) (string, error) {
	return "", errors.New("this version of sage does not write hard limits yet")
}
