//go:build vm

package hardlimits

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestSetupDemo: what "make demo" shows, on a host that setup has prepared: the
// limits are hard, and read back.
func TestSetupDemo(t *testing.T) {
	r := setupHost(t)
	prepare(t, r)
	out, err := harness.Output(exec.Command("sh", "../demo.sh"))
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%s", out)
	for want, times := range map[string]int{
		"lines are ok, 0 are not": 2, " memory.max ": 2, "(project ": 2, "require_hard_limits: true": 2, "limits: soft": 0,
		"hello from good.example": 1, "403 Forbidden": 2, `"action":"deny"`: 2,
	} {
		if n := strings.Count(out, want); n < times || times == 0 && n > 0 {
			t.Errorf("got %q %d times, want %d", want, n, times)
		}
	}
}
