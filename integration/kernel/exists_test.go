//go:build kernel

package kernel

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

const (
	existsPhrase  = "container with given ID already exists"
	missingPhrase = "container does not exist"
)

// TestMissingContainer: what is asked of a container that is not there fails
// with the words that engines match, but for a forced delete, which they repeat.
func TestMissingContainer(t *testing.T) {
	r := harness.NewRuntime(t)
	if res := r.Run(t, "delete", "--force", "nobody"); res.Code != 0 || res.Stderr != "" {
		t.Errorf("delete --force of what does not exist: %s", res)
	}
	for _, verb := range []string{"delete", "start", "state", "kill", "pause", "resume", "ps", "events", "update"} {
		t.Run(verb, func(t *testing.T) { isMissing(t, r.Run(t, verb, "nobody"), 1) })
	}
	// -1, which runc gives for an exec that never began.
	t.Run("exec", func(t *testing.T) { isMissing(t, r.Run(t, "exec", "nobody", "true"), 255) })
}

func isMissing(t *testing.T, res harness.Result, code int) {
	t.Helper()
	if res.Code != code || !strings.Contains(res.Stderr, missingPhrase) {
		t.Errorf("got %s, want exit status %d and %q", res, code, missingPhrase)
	}
}

// TestSecondCreate asks for the id of a container that is there, once while it
// waits for start and once while it runs.
func TestSecondCreate(t *testing.T) {
	r := harness.NewRuntime(t)
	bundle := harness.NewBundle(t, harness.Args("sleep", "1000"))
	id := harness.NewID()
	r.Must(t, "create", "--bundle", bundle.Dir, id)
	intrude(t, r, bundle, id)
	r.Must(t, "start", id)
	intrude(t, r, bundle, id)
}

func intrude(t *testing.T, r *harness.Runtime, bundle *harness.Bundle, id string) {
	t.Helper()
	before := stateOf(t, r, id)
	for _, verb := range []string{"create", "run"} {
		res := r.Run(t, verb, "--bundle", bundle.Dir, id)
		if res.Code != 1 || !strings.Contains(res.Stderr, existsPhrase) {
			t.Errorf("%s of a used id: %s, want %q", verb, res, existsPhrase)
		}
	}
	if after := stateOf(t, r, id); after.Pid != before.Pid || after.Status != before.Status {
		t.Errorf("the container is %v with pid %d, want it as before, %v with %d", after.Status, after.Pid, before.Status, before.Pid)
	}
}

// contest is a series of pairs of creates that fight for one id.
type contest struct {
	t      *testing.T
	r      *harness.Runtime
	bundle *harness.Bundle
	// otherWords counts what losers said that did not say the id is taken.
	otherWords map[string]int
}

// TestCreateRace: one create wins and is not disturbed, and the loser says that
// the id is taken, whichever of the checks on its way stopped it.
func TestCreateRace(t *testing.T) {
	c := contest{t, harness.NewRuntime(t), harness.NewBundle(t, harness.Args("sleep", "1000")), map[string]int{}}
	for range 50 {
		id := harness.NewID()
		c.fight(id)
		c.undisturbed(id)
		c.r.Must(t, "delete", "--force", id)
	}
	for words, n := range c.otherWords {
		if !harness.IsRunc(t, c.r.Bin) {
			t.Errorf("%d losers said %q, want %q", n, words, existsPhrase)
		}
		t.Logf("%d losers said only: %s", n, words)
	}
}

func (c *contest) fight(id string) {
	c.t.Helper()
	one := c.r.Start(c.t, "create", "--bundle", c.bundle.Dir, id)
	// A head start of up to the length of a create, so that every pair of
	// points in the two gets its turn.
	time.Sleep(time.Duration(rand.Int64N(int64(20 * time.Millisecond))))
	two := c.r.Start(c.t, "create", "--bundle", c.bundle.Dir, id)
	winner, loser := one.Wait(c.t), two.Wait(c.t)
	if winner.Code != 0 {
		winner, loser = loser, winner
	}
	if winner.Code != 0 || loser.Code != 1 {
		c.t.Fatalf("want one winner: %s; %s", winner, loser)
	}
	if !strings.Contains(loser.Stderr, existsPhrase) {
		c.otherWords[withoutNames(loser.Stderr, id)]++
	}
}

func (c *contest) undisturbed(id string) {
	c.t.Helper()
	was := stateOf(c.t, c.r, id)
	if was.Status != specs.StateCreated {
		c.t.Fatalf("the winner is %q, want created", was.Status)
	}
	c.r.Must(c.t, "start", id)
	if got := stateOf(c.t, c.r, id); got.Status != specs.StateRunning || got.Pid != was.Pid {
		c.t.Fatalf("the winner started as %v with pid %d, want running with %d", got.Status, got.Pid, was.Pid)
	}
}

// withoutNames makes messages of different rounds equal.
func withoutNames(text, id string) string {
	text = strings.ReplaceAll(text, id, "ID")
	if at := strings.Index(text, "level="); at >= 0 {
		text = text[at:]
	}
	return strings.TrimSpace(text)
}
