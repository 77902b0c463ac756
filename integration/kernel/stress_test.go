//go:build kernel

package kernel

import (
	"context"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

const (
	stressFor     = 15 * time.Second
	stressWorkers = 6
)

// stressVerbs is what an engine, its retries and its garbage collector may do
// to one container at the same time.
var stressVerbs = [][]string{
	{"create"},
	{"create"},
	{"run", "--detach"},
	{"start"},
	{"kill"},
	{"delete"},
	{"delete", "--force"},
	{"state"},
	{"list"},
	{"exec"},
}

// TestStress lets several processes at once do everything to three ids, and
// then removes these. Whatever the order was, nothing may be left, and none may
// have seen a panic.
func TestStress(t *testing.T) {
	r := harness.NewRuntime(t)
	if harness.IsRunc(t, r.Bin) {
		t.Log("runc leaves containers here that delete --force cannot remove; not run with it")
		return
	}
	bundle := harness.NewBundle(t, harness.Args("sleep", "1000"))
	ids := []string{harness.NewID(), harness.NewID(), harness.NewID()}
	ctx, cancel := context.WithTimeout(t.Context(), stressFor)
	defer cancel()
	var workers sync.WaitGroup
	for n := range stressWorkers {
		workers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			for ctx.Err() == nil {
				stressOnce(t, r, bundle, ids[random.IntN(len(ids))], stressVerbs[random.IntN(len(stressVerbs))])
			}
		})
	}
	workers.Wait()
	for _, id := range ids {
		deleteForce(t, r, id)
	}
}

func stressOnce(t *testing.T, r *harness.Runtime, bundle *harness.Bundle, id string, verb []string) {
	args := verb
	switch verb[0] {
	case "create", "run":
		args = slices.Concat(verb, []string{"--bundle", bundle.Dir, id})
	case "kill":
		args = slices.Concat(verb, []string{id, "KILL"})
	case "exec":
		args = slices.Concat(verb, []string{id, "true"})
	case "list":
	default:
		args = slices.Concat(verb, []string{id})
	}
	res := r.Start(t, args...).Wait(t)
	if res.TimedOut || res.Signal != 0 || strings.Contains(res.Stderr, "panic:") || strings.Contains(res.Stderr, "goroutine ") {
		t.Errorf("%v: %s", verb, res)
	}
}

// TestRunEndsWithoutPidNamespace: a background process that outlives the
// container's first one holds the pipes open. With no pid namespace to take it
// along, the end of the container has to.
func TestRunEndsWithoutPidNamespace(t *testing.T) {
	r := harness.NewRuntime(t)
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		dropNamespace(s, specs.PIDNamespace)
		s.Process.Args = []string{"sh", "-c", "sleep 1000 & exit 3"}
	})
	began := time.Now()
	exitsWith(t, r.Run(t, "run", "--bundle", bundle.Dir, harness.NewID()), 3)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestForeignProcessesSurvive: the cgroup that a killed create was to use was
// there before, with somebody else's process in a hierarchy that libcontainer
// does not look at. That process is not ours to kill.
func TestForeignProcessesSurvive(t *testing.T) {
	r := harness.NewRuntime(t)
	name := harness.Mark() + "-foreign"
	foreign := exec.Command("sleep", "1000")
	inCgroup(t, name)(foreign)
	check(t, harness.StartCommand(foreign))
	t.Cleanup(func() {
		_ = foreign.Process.Kill()
		_ = harness.WaitCommand(foreign)
	})
	run, id := createInHook(t, r, func(s *specs.Spec) { s.Linux.CgroupsPath = "/" + name })
	run.Kill()
	run.Wait(t)
	deleteForce(t, r, id)
	if harness.IsRunc(t, r.Bin) {
		logRemains(t)
	}
	if err := foreign.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the foreign process: %v", err)
	}
	if out := readText(t, filepath.Join(anyHierarchy(), name, "cgroup.procs")); strings.TrimSpace(out) == "" {
		t.Error("the foreign process is no longer in its cgroup")
	}
}
