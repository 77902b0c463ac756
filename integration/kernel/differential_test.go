//go:build kernel

package kernel

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// twin is a session at a shell, had once with runc and once with sage: what the
// two transcripts do not share has to be declared.
type twin struct {
	name string
	// edit changes the bundle's spec, whose payload otherwise sleeps.
	edit   func(*specs.Spec)
	script string
	// sockets has somebody listen at $W/console and $W/notify.
	sockets bool
	differ  []difference
}

// difference matches a line of diff(1), which begins with "< " where runc's
// transcript has it and with "> " where sage's has it.
type difference struct{ line, why string }

// duel runs the twins of one table, two at a time, and looks for leftovers when
// all are over: those of a twin cannot be told from those of its neighbour.
func duel(t *testing.T, twins []twin) {
	t.Helper()
	peer := harness.Peer(t, "runc")
	if !harness.IsRunc(t, peer) {
		t.Fatalf("%s is not runc", peer)
	}
	for _, tool := range []string{"jq", "setpriv", "script"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("the differential tests need %s: %v", tool, err)
		}
	}
	runc, sage := forAll(t, peer), forAll(t, harness.Sage(t))
	harness.Busybox(t)
	harness.Watch(t, harness.Scope{})
	t.Run("twin", func(t *testing.T) {
		for _, c := range twins {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.compare(t, runc, sage)
			})
		}
	})
}

var copied sync.Map // path of a runtime to that of its copy

// forAll copies a runtime to where an unprivileged user may execute it.
func forAll(t *testing.T, bin string) string {
	t.Helper()
	path := filepath.Join(harness.Scratch(t), "bin", strings.ReplaceAll(bin, "/", "_"), filepath.Base(bin))
	if _, done := copied.LoadOrStore(bin, path); !done {
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		_, err := harness.Output(exec.Command("install", "-m", "0755", bin, path))
		check(t, err)
	}
	return path
}

func (c twin) compare(t *testing.T, runc, sage string) {
	t.Helper()
	// The same id and paths for both, so that they need no replacing.
	dir, id := harness.TempDir(t), harness.NewID()
	want := c.transcript(t, runc, dir, id)
	got := c.transcript(t, sage, dir, id)
	if strings.Contains(want, "\nnever: ") {
		t.Errorf("the session waits for what does not come")
	}
	if harness.IsRunc(t, sage) {
		c.differ = nil // A run of the ring with runc shows what is chance.
	}
	c.judge(t, diffLines(t, want, got))
	if t.Failed() {
		t.Logf("runc's transcript:\n%s", want)
	}
}

func (c *twin) judge(t *testing.T, lines []string) {
	t.Helper()
	used := make([]bool, len(c.differ))
	for _, line := range lines {
		i := slices.IndexFunc(c.differ, func(d difference) bool { return regexp.MustCompile(d.line).MatchString(line) })
		if i < 0 {
			t.Errorf("undeclared (< runc, > sage): %s", line)
			continue
		}
		used[i] = true
	}
	for i, d := range c.differ {
		if !used[i] {
			t.Errorf("declared, but nothing differs like it any more: %q (%s)", d.line, d.why)
		}
	}
}

// diffLines returns the lines of diff(1) that carry text.
func diffLines(t *testing.T, want, got string) []string {
	t.Helper()
	dir := harness.TempDir(t)
	a, b := filepath.Join(dir, "runc"), filepath.Join(dir, "sage")
	check(t, os.WriteFile(a, []byte(want), 0o600))
	check(t, os.WriteFile(b, []byte(got), 0o600))
	out, err := harness.Output(exec.Command("diff", "-a", a, b))
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool {
		return !strings.HasPrefix(line, "< ") && !strings.HasPrefix(line, "> ")
	})
}

// TestDifference: what the comparison sees, and what it is blind to.
func TestDifference(t *testing.T) {
	lines := diffLines(t, "same\none\n", "same\ntwo\n")
	if want := []string{"< one", "> two"}; !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
	if got, want := normalise("12 pid=12 /x/runc: runc state c1, /w/b, at 2026-01-02T03:04:05.6Z", "/x/runc", "/w", "c1", map[string]string{"12": "SHELL"}),
		"12 pid=12 PROGRAM: PROGRAM state ID, WORK/b, at TIME"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
