package harness

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The steps of design section 3 after which the build with faults can fail, in
// the order in which they come; see internal/fault.
var (
	createFaults = []string{"admit", "reserve", "quota", "create", "save", "readback"}
	// RunFaults are those of a run, for [Faults].
	RunFaults = append(slices.Clone(createFaults), "release")
	// networkFaults are those that only a container with a proxy comes by.
	networkFaults = []string{"listen", "guard", "bridge"}
)

// NetworkFaults is [Faults] for the steps that make a container's way out.
func NetworkFaults(t *testing.T, hostText, dir string) {
	for _, how := range []string{"error", "kill"} {
		for verb, steps := range map[string][]string{"create": networkFaults, "run": append(slices.Clone(networkFaults), "proxy")} {
			for _, step := range steps {
				t.Run(verb+"/"+step+"/"+how, func(t *testing.T) {
					faulty(t, hostText).fail(t, step, how, verb, "--bundle", dir, NewID())
				})
			}
		}
		t.Run("start/proxy/"+how, func(t *testing.T) {
			r, id := faulty(t, hostText), NewID()
			r.Must(t, "create", "--bundle", dir, id)
			r.failing(t, "proxy", how, "start", id)
			r.Must(t, "delete", "--force", id)
		})
	}
}

// Faults makes every step of a start fail, by an error and by kill -9, under
// that host configuration and with the bundle in dir; a run's only at the given
// ones. After an error nothing may be left; after a kill nothing once the
// container was deleted by force.
func Faults(t *testing.T, hostText, dir string, ofRun ...string) {
	for verb, steps := range map[string][]string{"create": createFaults, "run": ofRun} {
		for _, step := range steps {
			for _, how := range []string{"error", "kill"} {
				t.Run(verb+"/"+step+"/"+how, func(t *testing.T) {
					r := faulty(t, hostText)
					r.fail(t, step, how, verb, "--bundle", dir, NewID())
				})
			}
		}
	}
	for _, how := range []string{"error", "kill"} {
		t.Run("start/start/"+how, func(t *testing.T) {
			r, id := faulty(t, hostText), NewID()
			r.Must(t, "create", "--bundle", dir, id)
			r.Env = nil
			r.failing(t, "start", how, "start", id)
			r.Must(t, "delete", "--force", id)
		})
	}
}

func faulty(t *testing.T, hostText string) *Runtime {
	t.Helper()
	r := NewRuntimeWith(t, hostText)
	r.Bin = fromEnv(t, "SAGE_FAULTS_BIN", "faults/sage-runtime")
	return r
}

// fail also sees to it that the container is gone, by itself after an error.
func (r *Runtime) fail(t *testing.T, step, how string, args ...string) {
	t.Helper()
	r.failing(t, step, how, args...)
	if how == "kill" {
		r.Must(t, "delete", "--force", args[len(args)-1])
	}
	left, err := os.ReadDir(r.Root)
	if err != nil || len(left) > 0 {
		t.Errorf("state root: saw %v, %v; want it empty", left, err)
	}
}

func (r *Runtime) failing(t *testing.T, step, how string, args ...string) {
	t.Helper()
	r.Env = []string{"SAGE_FAULT=" + step + "=" + how}
	res := r.Run(t, args...)
	r.Env = nil
	byError := how == "error" && res.Code == 1 && strings.Contains(res.Stderr, "fault after the step "+step)
	byKill := how == "kill" && res.Signal == syscall.SIGKILL
	if !byError && !byKill {
		t.Errorf("%s with a fault at %s by %s: got %s", args[0], step, how, res)
	}
}
