//go:build kernel

package workload

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/sage-sandbox/sage/integration/harness"
)

// hosts are the configurations under which the columns are run, by profile.
var hosts = map[string]string{
	"compat":  harness.Compat,
	"sage":    harness.SoftSage,
	"agent":   harness.SoftAgent,
	"service": harness.SoftService,
}

// lab is what all containers of a run have in common.
type lab struct {
	image    string            // the tree below their roots
	writable string            // the folder that the host's file lists as one
	list     []program         // what they run
	scripts  map[string]string // and how, by name
	seen     outcomes
}

// TestPrograms runs every program of the list under every profile. One that
// breaks where it should work fails the test, and so does one that works where
// it should break, since then the list is wrong.
//
// Proves: S-005, S-006, S-022, S-023, S-061, G-09, G-19.
func TestPrograms(t *testing.T) {
	l := &lab{image: unpackImage(t), writable: harness.TempDir(t), list: readList(t), scripts: scripts(t)}
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) { l.runAll(t, profile) })
	}
	t.Log("\n" + l.seen.table(l.list))
}

func (l *lab) runAll(t *testing.T, profile string) {
	t.Helper()
	// One for all, since it watches for what they leave, and they run side by side.
	r := harness.NewRuntimeWith(t, hosts[profile]+"write_paths: ["+l.writable+"]\n")
	for _, p := range l.list {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			l.run(t, r, profile, p)
		})
	}
}

func (l *lab) run(t *testing.T, r *harness.Runtime, profile string, p program) {
	t.Helper()
	bundle := l.newBundle(t, profile, p)
	res := r.Run(t, "run", "--bundle", bundle.Dir, harness.NewID())
	l.seen.add(profile, p, res)
	if problem := compare(p.want[profile], res); problem != "" {
		t.Errorf("%s\nwhy the list has it so: %s\ntook %v, standard output:\n%s\nstandard error:\n%s",
			problem, p.why, res.Took, res.Stdout, res.Stderr)
	}
}

// compare returns what is wrong with a result, or "".
func compare(want string, res harness.Result) string {
	said := fmt.Sprintf("%s%s\nexit status %d", res.Stdout, res.Stderr, res.Code)
	switch {
	case res.TimedOut:
		return "took too long"
	case want == works && res.Code != 0:
		return fmt.Sprintf("breaks with exit status %d, want it to work", res.Code)
	case want != works && res.Code == 0:
		return fmt.Sprintf("works, want it to break with %q", want)
	case want != works && !strings.Contains(said, want):
		return fmt.Sprintf("breaks with exit status %d and without saying %q", res.Code, want)
	}
	return ""
}

// outcomes collects what programs that run side by side came to.
type outcomes struct {
	mu  sync.Mutex
	got map[outcome]string
}

type outcome struct{ profile, program string }

func (o *outcomes) add(profile string, p program, res harness.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := works
	if res.Code != 0 {
		text = "breaks"
	}
	if compare(p.want[profile], res) != "" {
		text += " (!)"
	}
	if o.got == nil {
		o.got = map[outcome]string{}
	}
	o.got[outcome{profile, p.name}] = fmt.Sprintf("%s %.1f s", text, res.Took.Seconds())
}

func (o *outcomes) table(list []program) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "program\t"+strings.Join(profiles, "\t"))
	for _, p := range list {
		fmt.Fprint(w, p.name)
		for _, profile := range profiles {
			fmt.Fprint(w, "\t"+o.got[outcome{profile, p.name}])
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // A strings.Builder takes everything.
	return b.String()
}
