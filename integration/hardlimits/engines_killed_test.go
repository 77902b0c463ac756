//go:build vm

package hardlimits

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sage-sandbox/sage/integration/harness"
)

// Whenever the shim and the runtime are killed in a create, or dockerd is, all
// comes back.
func engineKilled(t *testing.T, e docker) {
	nothingHeld(t)
	for _, after := range []time.Duration{500, 1000, 1500} {
		e.startAndKill(t, after*time.Millisecond, func(id string) {
			t.Logf("after %d ms: killed %d", after, killNamed(t, id, "containerd-shim", "sage-runtime"))
		})
	}
	nothingHeld(t)
	e.startAndKill(t, time.Second, func(string) { e.d.Restart(t) })
	nothingHeld(t)
	e.run(t, disk(8), harness.BusyboxImage, "true").wantOK(t)
}

// startAndKill removes a container after something was killed in its start.
func (e docker) startAndKill(t *testing.T, after time.Duration, kill func(id string)) {
	t.Helper()
	id := e.create(t, disk(8), harness.BusyboxImage, "sleep", "1000")
	cmd := e.d.Command(t, "start", id)
	check(t, harness.StartCommand(cmd))
	time.Sleep(after)
	kill(id)
	_ = harness.WaitCommand(cmd)
	e.remove(t, id)
}

// killNamed kills what works for a container below this test process, by the
// kernel's names, which are cut after 15 letters. What still clears up after
// another container is left alone: containerd does that once.
func killNamed(t *testing.T, id string, names ...string) (killed int) {
	t.Helper()
	all, err := harness.Descendants()
	check(t, err)
	for _, p := range all {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(p.Name, name) }) && bytes.Contains(args, []byte(id)) {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
			killed++
		}
	}
	return killed
}
