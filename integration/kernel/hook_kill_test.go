//go:build kernel

package kernel

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// deletions are ways to a clean host after a create that was killed.
var deletions = map[string]func(t *testing.T, r *harness.Runtime, id string){
	"delete --force": deleteForce,
	"delete and then delete --force": func(t *testing.T, r *harness.Runtime, id string) {
		// Not forced it is an error, and must not lose what the next one needs.
		isMissing(t, r.Run(t, "delete", id), 1)
		deleteForce(t, r, id)
	},
	"delete --force from another cgroup": func(t *testing.T, r *harness.Runtime, id string) {
		// A relative path of a cgroup is relative to the caller's own.
		elsewhere := inCgroup(t, harness.Mark()+"-elsewhere")
		exitsWith(t, r.StartWith(t, elsewhere, "delete", "--force", id).Wait(t), 0)
	},
}

// TestKilledDuringHook kills create while a hook keeps the container's init
// busy: the init does not see its parent's end, there is no saved state yet, and
// no timing is needed to get there. The remains must be found all the same.
func TestKilledDuringHook(t *testing.T) {
	for name, remove := range deletions {
		t.Run(name, func(t *testing.T) {
			r := harness.NewRuntime(t)
			run, id := createInHook(t, r)
			run.Kill()
			run.Wait(t)
			remove(t, r, id)
			if harness.IsRunc(t, r.Bin) {
				logRemains(t)
			}
		})
	}
}

// TestDeleteDuringCreate takes the container away from a create that is alive.
// The create has to fail, and nothing may be left by the two of them.
func TestDeleteDuringCreate(t *testing.T) {
	r := harness.NewRuntime(t)
	run, id := createInHook(t, r)
	deleteForce(t, r, id)
	if harness.IsRunc(t, r.Bin) {
		logRemains(t)
	}
	// libcontainer may warn besides that the cgroup's counters are gone.
	if res := run.Wait(t); res.Code != 1 || strings.Count(res.Stderr, "level=error") != 1 {
		t.Errorf("create: %s, want exit status 1 and one error", res)
	}
}

func deleteForce(t *testing.T, r *harness.Runtime, id string) {
	t.Helper()
	r.Must(t, "delete", "--force", id)
}

// createInHook returns once the hook runs, which does not end by itself.
func createInHook(t *testing.T, r *harness.Runtime, edits ...func(*specs.Spec)) (*harness.Running, string) {
	t.Helper()
	// The seconds tell this hook's process from every other sleep.
	hook := specs.Hook{Path: "/bin/sleep", Args: []string{"sleep", "4711"}}
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		s.Hooks = &specs.Hooks{CreateContainer: []specs.Hook{hook}}
		for _, edit := range edits {
			edit(s)
		}
	})
	id := harness.NewID()
	run := r.Start(t, "create", "--bundle", bundle.Dir, id)
	harness.Eventually(t, "the hook runs", func() bool { return len(hookProcesses(t)) > 0 })
	return run, id
}

// hookProcesses finds it by its arguments among our descendants.
func hookProcesses(t *testing.T) []harness.Process {
	t.Helper()
	all, err := harness.Descendants()
	check(t, err)
	var found []harness.Process
	for _, p := range all {
		if strings.Contains(p.Argv, "sleep 4711") {
			found = append(found, p)
		}
	}
	return found
}

// inCgroup starts a command in a cgroup of its own, in one v1 hierarchy or the
// unified one: one is enough to make relative paths differ.
func inCgroup(t *testing.T, name string) func(*exec.Cmd) {
	t.Helper()
	dir := filepath.Join(anyHierarchy(), name)
	check(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() { removeCgroup(t, dir) })
	return throughShell(`echo $$ >` + dir + `/cgroup.procs;`)
}

// anyHierarchy prefers pids, which has nothing to set up, to cpuset.
func anyHierarchy() string {
	if _, err := os.Stat("/sys/fs/cgroup/pids"); err == nil {
		return "/sys/fs/cgroup/pids"
	}
	return "/sys/fs/cgroup"
}

// logRemains writes down and ends what runc leaves: its delete --force finds no
// state.json and removes the folder only.
func logRemains(t *testing.T) {
	t.Helper()
	for _, p := range hookProcesses(t) {
		t.Logf("runc left process %s", p)
		// Its parent is the stuck init; once the hook is gone that ends too.
		_ = unix.Kill(p.PID, unix.SIGKILL)
	}
	forgiveCgroups(t)
}
