//go:build kernel

package kernel

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

var killRounds = flag.Int("kill.rounds", 200, "how many commands TestKilled kills")

// killCase is one command of a runtime and what has to be there before it.
type killCase struct {
	name string
	// prepare brings container id to where the command begins.
	prepare func(k *killer, id string)
	args    func(id string) []string
}

var killCases = []killCase{
	{"create", func(*killer, string) {}, func(id string) []string {
		return []string{"create", "--bundle", ".", "--pid-file", "pid", id}
	}},
	{"start", created, func(id string) []string { return []string{"start", id} }},
	{"exec", running, func(id string) []string { return []string{"exec", id, "true"} }},
	{"run", func(*killer, string) {}, func(id string) []string {
		return []string{"run", "--bundle", ".", id}
	}},
	{"delete", stopped, func(id string) []string { return []string{"delete", id} }},
	{"delete --force", running, func(id string) []string { return []string{"delete", "--force", id} }},
}

// killShapes are the kinds of container whose remains differ: with no pid
// namespace of its own, killing init does not end the rest.
var killShapes = []struct {
	name string
	edit func(*specs.Spec)
}{
	{"own pid namespace", func(*specs.Spec) {}},
	{"shared pid namespace", func(s *specs.Spec) { dropNamespace(s, specs.PIDNamespace) }},
	{"user namespace", mapUsers},
}

// TestKilled kills the runtime's own process, and only that, at random points
// of every command. What it leaves, delete --force must be able to remove.
func TestKilled(t *testing.T) {
	seed := killSeed(t)
	t.Logf("seed %d (SAGE_KILL_SEED repeats it)", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	rounds := *killRounds/(len(killCases)*len(killShapes)) + 1
	for _, c := range killCases {
		for _, shape := range killShapes {
			t.Run(c.name+"/"+shape.name, func(t *testing.T) { newKiller(t, c, shape.edit).rounds(random, rounds) })
		}
	}
}

func killSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SAGE_KILL_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano())
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("SAGE_KILL_SEED: %v", err)
	}
	return seed
}

// killer is one row of killCases on one of killShapes.
type killer struct {
	t       *testing.T
	c       killCase
	runtime *harness.Runtime
	bundle  *harness.Bundle
	length  time.Duration
	// stages counts what lay in the state folder when the command was killed.
	stages    map[string]int
	reference bool
}

// newKiller measures the command first. The longest of three runs, so that the
// last steps are reached too when the machine is busy.
func newKiller(t *testing.T, c killCase, edit func(*specs.Spec)) *killer {
	k := &killer{t: t, c: c, runtime: harness.NewRuntime(t), stages: map[string]int{}}
	k.reference = harness.IsRunc(t, k.runtime.Bin)
	k.bundle = harness.NewBundle(t, func(s *specs.Spec) {
		s.Process.Args = []string{"sleep", "1000"}
		if c.name == "run" {
			s.Process.Args = []string{"sleep", "0.01"} // run has to come to its end.
		}
		edit(s)
	})
	for range 3 {
		k.length = max(k.length, k.whole())
	}
	return k
}

// whole runs the command undisturbed and returns how long it took.
func (k *killer) whole() time.Duration {
	k.t.Helper()
	id := harness.NewID()
	k.c.prepare(k, id)
	res := k.begin(id).Wait(k.t)
	if res.Code != 0 {
		k.t.Fatalf("%s, undisturbed: %s", k.c.name, res)
	}
	k.forget(id)
	return res.Took
}

func (k *killer) rounds(random *rand.Rand, n int) {
	k.t.Helper()
	for range n {
		k.round(random)
	}
	k.t.Logf("%d rounds over %v, left at the kill: %v", n, k.length.Round(time.Millisecond), k.stages)
}

// round kills one command. The container is prepared after the snapshot: it
// belongs to what has to be gone at the end.
func (k *killer) round(random *rand.Rand) {
	k.t.Helper()
	before := harness.Snapshot(k.t, k.runtime.Scope())
	id := harness.NewID()
	k.c.prepare(k, id)
	after := time.Duration(random.Int64N(int64(k.length)))
	run := k.begin(id)
	time.Sleep(after)
	run.Kill()
	run.Wait(k.t)
	stage := k.stage(id)
	k.stages[stage]++
	k.forget(id)
	k.compare(before, fmt.Sprintf("killed after %v with %s there", after, stage))
}

// compare stops at the first difference: what is left would be counted again in
// every later round.
func (k *killer) compare(before harness.Host, when string) {
	k.t.Helper()
	if k.reference && forgiveCgroups(k.t) > 0 {
		k.stages["runc left cgroups"]++
	}
	for _, line := range harness.Settle(k.t, k.runtime.Scope(), before) {
		k.t.Errorf("%s: %s", when, line)
	}
	if k.t.Failed() {
		k.t.FailNow()
	}
}

// forgiveCgroups removes what runc is known to leave: the cgroups of a create
// that was killed before it had saved its state. Its delete --force cannot know
// of them. sage's must. It returns how many there were.
func forgiveCgroups(t *testing.T) int {
	t.Helper()
	dirs, err := harness.Cgroups(harness.Mark())
	check(t, err)
	slices.Reverse(dirs)
	for _, dir := range dirs {
		removeCgroup(t, dir)
	}
	return len(dirs)
}

// removeCgroup waits for processes that are about to go.
func removeCgroup(t *testing.T, dir string) {
	t.Helper()
	harness.Eventually(t, dir+" is empty", func() bool {
		err := os.Remove(dir)
		return err == nil || errors.Is(err, os.ErrNotExist)
	})
}

// begin starts the command in the bundle's folder, where a relative --bundle
// and --pid-file point to.
func (k *killer) begin(id string) *harness.Running {
	k.t.Helper()
	return k.runtime.StartIn(k.t, k.bundle.Dir, k.c.args(id)...)
}

// forget is the one remedy a user has.
func (k *killer) forget(id string) {
	k.t.Helper()
	if res := k.runtime.Run(k.t, "delete", "--force", id); res.Code != 0 {
		k.t.Fatalf("delete --force after the kill: %s", res)
	}
	// A temporary of the pid file may lie beside it; a later create would trip.
	for _, name := range []string{"pid", ".pid"} {
		_ = os.Remove(filepath.Join(k.bundle.Dir, name))
	}
}

// stage says how far the command had come, by what is in the state folder.
func (k *killer) stage(id string) string {
	k.t.Helper()
	entries, err := os.ReadDir(filepath.Join(k.runtime.Root, id))
	if err != nil {
		return "no state folder"
	}
	names := []string{}
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), "state-")
		names = append(names, name)
	}
	return fmt.Sprint(names)
}

// The next three bring a container to where a command begins.

func created(k *killer, id string) {
	k.t.Helper()
	k.runtime.Must(k.t, "create", "--bundle", k.bundle.Dir, id)
}

func running(k *killer, id string) {
	k.t.Helper()
	k.runtime.Must(k.t, "run", "--detach", "--bundle", k.bundle.Dir, id)
}

func stopped(k *killer, id string) {
	k.t.Helper()
	running(k, id)
	k.runtime.Must(k.t, "kill", id, "KILL")
	waitStatus(k.t, k.runtime, id, specs.StateStopped)
}
