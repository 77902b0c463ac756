package cli

import (
	"fmt"
	"slices"

	"github.com/sage-sandbox/sage/internal/runtime"
	"github.com/sage-sandbox/sage/spec"
)

// repair is what was done with one thing that no container owns.
type repair struct {
	What  string `json:"what"` // "container", "project", ...
	Name  string `json:"name"` // its id, or where it was looked for
	Did   string `json:"did"`  // "removed", "failed", for a quota mount the counts
	Error string `json:"error,omitempty"`
}

func (r repair) String() string {
	text := fmt.Sprintf("repair: %s %s: %s", r.What, r.Name, r.Did)
	if r.Error != "" {
		text += ": " + r.Error
	}
	return text
}

// repair goes on after a failure: the rest may be mended all the same.
func (c *command) repair(host *spec.Host) []repair {
	ids, err := c.host.Repair()
	all := outcomes("container", c.host.Root, ids, err)
	if host.QuotaMount == "" {
		return all
	}
	swept, err := runtime.RepairQuota(host.QuotaMount)
	if err != nil {
		return append(all, repair{What: "quota", Name: host.QuotaMount, Did: "failed", Error: err.Error()})
	}
	did := fmt.Sprintf("%d projects held, %d given back, %d retired until nothing counts for them, %d leftovers removed",
		swept.Held, swept.Freed, swept.Retired, swept.Removed)
	return append(all, repair{What: "quota", Name: host.QuotaMount, Did: did})
}

func outcomes(what, place string, removed []string, err error) []repair {
	var all []repair
	for _, name := range removed {
		all = append(all, repair{What: what, Name: name, Did: "removed"})
	}
	if err != nil {
		all = append(all, repair{What: what, Name: place, Did: "failed", Error: err.Error()})
	}
	return all
}

func (r *checkReport) failed() bool {
	return slices.ContainsFunc(r.Repairs, func(x repair) bool { return x.Error != "" })
}
