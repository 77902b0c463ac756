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
	"testing"
	"time"

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
	differ []difference
}

// difference matches a line of diff(1), which begins with "< " where runc's
// transcript has it and with "> " where sage's has it.
type difference struct{ line, why string }

// twinPrelude is what every script begins with. Output goes to files: a
// detached container keeps it open.
const twinPrelude = `
n=0
show() { # MARK FILE: of a help text only the flags, its prose is each one's own
	[ -s "$2" ] || return 0
	sed -e "/^NAME:/,/^\\(GLOBAL \\)\\?OPTIONS:/d" -e "s/^/$1 /" "$2"
	[ -z "$(tail -c 1 "$2")" ] || printf '%s\n' "<no newline>"
}
told() { # STATUS
	echo "exit $1"
	show out $W/out.$n
	show err $W/err.$n
}
g() { # ARGS: one command of the runtime
	n=$((n + 1))
	printf '$ %s\n' "$*"
	$RT "$@" >$W/out.$n 2>$W/err.$n
	told $?
}
r() { # ARGS: the same with a state root of the session's own
	g --root $ROOT "$@"
}
k() { # ARGS: a command that is there for the next one's sake
	n=$((n + 1))
	$RT --root $ROOT "$@" >$W/out.$n 2>$W/err.$n || { c=$?; printf '$ %s\n' "$*"; told $c; }
}
conf() { # JQ: change the bundle
	jq -c "$1" $B/config.json >$B/new && mv $B/new $B/config.json
}
pid() { $RT --root $ROOT state ${1:-$ID} | jq .pid; }
await() { # COMMAND: wait until it succeeds
	for i in $(seq 200); do
		eval "$1" && return 0
		sleep 0.02
	done
	echo "never: $1"
}
is() { # STATUS
	await "[ \"\$($RT --root $ROOT state $ID 2>/dev/null | jq -r .status)\" = $1 ]"
}
`

// duel runs the twins of one table, two at a time, and looks for leftovers when
// all are over: those of a twin cannot be told from those of its neighbour.
func duel(t *testing.T, twins []twin) {
	t.Helper()
	runc := harness.Peer(t, "runc")
	if !harness.IsRunc(t, runc) {
		t.Fatalf("%s is not runc", runc)
	}
	if _, err := exec.LookPath("jq"); err != nil {
		t.Fatalf("the differential tests need jq: %v", err)
	}
	harness.Busybox(t)
	harness.Watch(t, harness.Scope{})
	t.Run("twin", func(t *testing.T) {
		for _, c := range twins {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.compare(t, runc, harness.Sage(t))
			})
		}
	})
}

func (c *twin) compare(t *testing.T, runc, sage string) {
	t.Helper()
	// The same id and paths for both, so that they need no replacing.
	dir, id := harness.TempDir(t), harness.NewID()
	want := c.transcript(t, runc, dir, id)
	got := c.transcript(t, sage, dir, id)
	lines := diffLines(t, want, got)
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
	if t.Failed() {
		t.Logf("runc's transcript:\n%s", want)
	}
}

// transcript has one session in an empty folder.
func (c *twin) transcript(t *testing.T, bin, dir, id string) string {
	t.Helper()
	work := filepath.Join(dir, "w")
	bundle := filepath.Join(work, "b")
	root := filepath.Join(work, "root")
	check(t, os.MkdirAll(bundle, 0o755))
	check(t, os.Mkdir(root, 0o700))
	spec := harness.DefaultSpec(t)
	spec.Process.Args = []string{"sleep", "1000"}
	if c.edit != nil {
		c.edit(spec)
	}
	check(t, os.WriteFile(filepath.Join(bundle, "config.json"), []byte(asJSON(t, spec)), 0o644))
	text := runScript(t, c.script, work, []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/root", "LC_ALL=C",
		"RT=" + bin, "W=" + work, "B=" + bundle, "ROOT=" + root, "ID=" + id,
	})
	removeContainers(t, bin, root)
	check(t, os.RemoveAll(work))
	return normalise(text, bin, work, id)
}

func runScript(t *testing.T, script, work string, env []string) string {
	t.Helper()
	path := filepath.Join(work, "transcript")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	check(t, err)
	defer out.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", twinPrelude+script)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, work, out, out
	check(t, harness.StartCommand(cmd))
	late := time.AfterFunc(harness.Timeout, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var exit *exec.ExitError
	if err := harness.WaitCommand(cmd); errors.As(err, &exit) {
		return readText(t, path) + "the session ended with " + err.Error() + "\n"
	}
	return readText(t, path)
}

func removeContainers(t *testing.T, bin, root string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	check(t, err)
	r := &harness.Runtime{Bin: bin, Root: root}
	for _, e := range entries {
		if res := r.Run(t, "delete", "--force", e.Name()); res.Code != 0 {
			t.Errorf("%s: delete --force %s: %s", bin, e.Name(), res)
		}
	}
}

// normalising is what differs from one run of the same binary to the next, and
// the name of the program, which is meant to.
var normalising = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`("pid": ?)[1-9]\d*`), "${1}PID"},
	{regexp.MustCompile(`/run/(sage|runc)\b`), "/run/PROGRAM"},
	{regexp.MustCompile(`(^|[^.\w/-])(sage-runtime|runc)\b`), "${1}PROGRAM"},
	{regexp.MustCompile(`PROGRAM version \S+`), "PROGRAM version VERSION"},
	{regexp.MustCompile(`commit: \S+`), "commit: COMMIT"},
	{regexp.MustCompile(`system.slice:\w+:434234`), "system.slice:PROGRAM:434234"},
	// A failure that has a code carries it at its end and as a field of the log.
	{regexp.MustCompile(`open bundle: (.*) \[sandbox\.\w+\]`), "${1}"},
	{regexp.MustCompile(` \[sandbox\.\w+\]`), ""},
	{regexp.MustCompile(` code=sandbox\.\w+|"code":"sandbox\.\w+",`), ""},
}

func normalise(text, bin, work, id string) string {
	text = strings.NewReplacer(bin, "PROGRAM", work, "WORK", id, "ID").Replace(text)
	for _, n := range normalising {
		text = n.pattern.ReplaceAllString(text, n.with)
	}
	return text
}

// diffLines returns the lines of diff(1) that carry text.
func diffLines(t *testing.T, want, got string) []string {
	t.Helper()
	dir := harness.TempDir(t)
	a, b := filepath.Join(dir, "runc"), filepath.Join(dir, "sage")
	check(t, os.WriteFile(a, []byte(want), 0o600))
	check(t, os.WriteFile(b, []byte(got), 0o600))
	out, err := harness.Output(exec.Command("diff", a, b))
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(out), "\n"), func(line string) bool {
		return !strings.HasPrefix(line, "< ") && !strings.HasPrefix(line, "> ")
	})
}
