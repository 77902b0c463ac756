//go:build kernel

package policy

import (
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestUpdateForgetsNothing: an update of one limit leaves the others recorded,
// so that the next one cannot raise them.
//
// Proves: S-020.
func TestUpdateForgetsNothing(t *testing.T) {
	r, id := running(t, harness.SoftSage)
	for _, less := range [][]string{{"--cpu-quota", "50000", "--cpu-period", "100000"}, {"--memory", "536870912", "--memory-swap", "536870912"}, {"--pids-limit", "32"}, {"--cpuset-cpus", "0"}} {
		ran(t, r.Run(t, append(append([]string{"update"}, less...), id)...))
		for _, more := range [][]string{{"--pids-limit", "4096"}, {"--memory", "2147483648", "--memory-swap", "2147483648"}, {"--cpu-quota", "200000", "--cpu-period", "100000"}} {
			res := r.Run(t, append(append([]string{"update"}, more...), id)...)
			if res.Code == 0 || !strings.Contains(res.Stderr, "sandbox.permission_denied") {
				t.Errorf("after %v, %v: got %s, want it refused", less, more, res)
			}
		}
	}
	if res := r.Run(t, "update", "--cpuset-cpus", "1", id); res.Code == 0 || !strings.Contains(res.Stderr, "sandbox.permission_denied") {
		t.Errorf("another processor: got %s, want it refused", res)
	}
}
