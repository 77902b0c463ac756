package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseFlags(t *testing.T) {
	t.Setenv("SAGE_CACHE", "/cache")
	tests := []struct {
		name string
		args []string
		want options
		ok   bool
	}{
		{"defaults", nil, options{sage: "bin/sage-runtime", runc: "/cache/peers/bin/runc", pairs: 200}, true},
		{"self compares runc with runc", []string{"-self", "-n", "9"}, options{
			sage: "/cache/peers/bin/runc", runc: "/cache/peers/bin/runc", pairs: 9, self: true,
		}, true},
		{"one pair has no spread", []string{"-n", "1"}, options{}, false},
		{"stray argument", []string{"run"}, options{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseFlags(tt.args, io.Discard)
			if (err == nil) != tt.ok {
				t.Fatalf("got error %v, want one: %v", err, !tt.ok)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(options{})); tt.ok && diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChosen(t *testing.T) {
	for only, want := range map[string]int{"": len(measures), "run": 3, "run,exec": 5, "create": 1, "ioctl": 2, "nothing": 0} {
		if got := len(chosen(measures, only)); got != want {
			t.Errorf("-only %q: got %d measures, want %d", only, got, want)
		}
	}
}

func TestEdit(t *testing.T) {
	const text = `{"ociVersion":"1.3.0","process":{"terminal":true,"args":["sh"],"cwd":"/"},"root":{"path":"rootfs"}}`
	got, err := edit([]byte(text), "/r", []string{"/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"ociVersion":"1.3.0","process":{"args":["/bin/true"],"cwd":"/","terminal":false},"root":{"path":"/r","readonly":true}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if _, err := edit([]byte(`{}`), "/r", nil); err == nil {
		t.Error("no process: got no error")
	}
}

// fake is a contender whose binary is a shell script.
func fake(t *testing.T, name, script string) *contender {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "fake")
	if err := os.WriteFile(bin, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	l := &lab{dir: t.TempDir(), state: t.TempDir()}
	c, err := newContender(l, name, bin)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSpawn(t *testing.T) {
	good := fake(t, "sage", `test "$1 ${2##*/} $3" = "--root sage-root --version"`+"\n")
	got, err := good.spawn(t.Context(), "--version")
	if err != nil || got.wall <= 0 {
		t.Errorf("got %v and %v, want some time and no error", got, err)
	}
	bad := fake(t, "sage", "echo it broke >&2; exit 3\n")
	const want = "sage start c1: exit status 3: it broke"
	if _, err := bad.spawn(t.Context(), "start", "c1"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestSpawnInterrupted: a command that runs is let finish, and none follows.
func TestSpawnInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := fake(t, "sage", "sleep 0.2\n")
	time.AfterFunc(50*time.Millisecond, cancel)
	if got, err := c.spawn(ctx, "run"); err != nil || got.wall < 200*time.Millisecond {
		t.Errorf("during it: got %v and %v, want 200 ms at least and no error", got.wall, err)
	}
	if _, err := c.spawn(ctx, "run"); !errors.Is(err, context.Canceled) {
		t.Errorf("after it: got %v, want %v", err, context.Canceled)
	}
}

// TestCompare takes pairs of two fakes of known speed: the slow one is sage.
func TestCompare(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	l := &lab{
		runc: fake(t, "runc", "echo runc >>"+log+"\n"),
		sage: fake(t, "sage", "echo sage >>"+log+"; sleep 0.05\n"),
	}
	pairs, err := l.compare(t.Context(), measure{times: 2, once: version}, 6)
	if err != nil {
		t.Fatal(err)
	}
	if len(pairs) != 12 {
		t.Errorf("got %d pairs, want 12: twice six", len(pairs))
	}
	for _, p := range pairs {
		if p.sage.wall < 50*time.Millisecond {
			t.Errorf("got %v for sage, want 50 ms at least: the two are mixed up", p.sage.wall)
		}
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	order := strings.Fields(string(text))[2:] // after the one of each that warms up
	for i := 0; i < len(order); i += 2 {
		if order[i] == order[i+1] {
			t.Errorf("pair %d holds %s twice: %v", i/2, order[i], order)
		}
	}
}

func TestOrder(t *testing.T) {
	turns := order(1000)
	var ones int
	for i := 0; i < len(turns); i += 2 {
		if turns[i]+turns[i+1] != 1 {
			t.Fatalf("pairs %d and %d: got turns %v, want one of each", i, i+1, turns[i:i+2])
		}
		ones += turns[i]
	}
	if ones == 0 || ones == 500 {
		t.Errorf("got %d of 500 couples that begin with 1: the lot is not drawn", ones)
	}
}

func TestCompareStopsAtFailure(t *testing.T) {
	l := &lab{runc: fake(t, "runc", "exit 0\n"), sage: fake(t, "sage", "exit 1\n")}
	if _, err := l.compare(t.Context(), measure{times: 1, once: version}, 2); err == nil {
		t.Error("got no error, want one: a command that fails fast would win")
	}
}

// TestReap waits for a child by its pid file and must collect it.
func TestReap(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pidFile := filepath.Join(t.TempDir(), "pid")
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := reap(pidFile); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(cmd.Process.Pid, nil, 0, nil); !errors.Is(err, unix.ECHILD) {
		t.Errorf("got %v, want ECHILD: the child was not collected", err)
	}
}

func TestPrintTable(t *testing.T) {
	pairs := []pair{{runc: sample{100e6, 20e6}, sage: sample{102e6, 21e6}}}
	var out bytes.Buffer
	printTable(&out, []result{summarize(measure{name: "run /bin/true", limit: 1.03}, pairs)})
	const want = "| `run /bin/true` | 1 | 100.00 (100.00-100.00) | 102.00 (102.00-102.00) | **1.020** |" +
		" 1.020 (1.020-1.020) | 20.00, 21.00, 1.050 | <= 1.03 | holds |"
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if diff := cmp.Diff(want, lines[len(lines)-1]); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestWriteCSV(t *testing.T) {
	name := filepath.Join(t.TempDir(), "samples.csv")
	pairs := []pair{{runc: sample{1, 2}, sage: sample{3, 4}}}
	if err := writeCSV(name, []result{{measure: measure{name: "run"}, pairs: pairs}}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("command,runc_wall,sage_wall,runc_cpu,sage_cpu\nrun,1,3,2,4\n", string(got)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}

// TestDeleteAll is the clean-up after an interrupt: every container that has
// state goes, by the runtime's own hand.
func TestDeleteAll(t *testing.T) {
	c := fake(t, "runc", `printf '%s ' "$@" >>"$2.log"`+"\n")
	for _, id := range []string{"c1", "c2"} {
		if err := os.Mkdir(filepath.Join(c.root, id), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.deleteAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(c.root + ".log")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll("--root R delete --force c1 --root R delete --force c2 ", "R", c.root)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

// TestRivals: a measure of the policy is one of runc against sage's own rules.
func TestRivals(t *testing.T) {
	l := &lab{runc: &contender{name: "runc"}, sage: &contender{name: "sage"}, policy: &contender{name: "policy"}, agent: &contender{name: "agent"}}
	for want, m := range map[string]measure{"runc sage": {}, "runc policy": {policy: true}, "runc agent": {agent: true}} {
		both := l.rivals(m)
		if got := both[0].name + " " + both[1].name; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestUnderHost: every command of a contender with a host configuration has it,
// before its verb.
func TestUnderHost(t *testing.T) {
	c := fake(t, "sage", `echo "$3 $5"; cat "$4"`+"\n")
	if err := c.underHost("version: 1\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := c.output(t.Context(), "run"); err != nil || got != "--config run\nversion: 1" {
		t.Errorf("got %q and %v, want the flag, the verb and the file's text", got, err)
	}
}

// TestTimeLoops: who gets which bundle.
func TestTimeLoops(t *testing.T) {
	for name, want := range map[string]string{"runc": "theirs", "policy": "ours"} {
		c := fake(t, name, `test "${5##*/}" = `+want+` && echo 5 4`+"\n")
		if got, err := timeLoops("theirs", "ours")(t.Context(), c); err != nil || got != (sample{5, 4}) {
			t.Errorf("%s: got %v and %v, want 5 and 4 from the bundle %s", name, got, err, want)
		}
	}
}

func TestParseLoop(t *testing.T) {
	if got, err := parseLoop("12 9\n"); err != nil || got != (sample{12, 9}) {
		t.Errorf("got %v and %v, want 12 and 9", got, err)
	}
	for _, bad := range []string{"", "12", "0 0", "x 1"} {
		if got, err := parseLoop(bad); err == nil {
			t.Errorf("%q: got %v, want an error", bad, got)
		}
	}
}

// TestCheckLayers: a policy that is not in force must not be measured.
func TestCheckLayers(t *testing.T) {
	layers := func(name string, n int) *contender {
		c := fake(t, name, "echo Seccomp_filters: "+strconv.Itoa(n)+"\n")
		if name != "runc" {
			c.flags = []string{"--config", "x"}
		}
		return c
	}
	tests := []struct {
		name               string
		runc, sage, policy int
		ok                 bool
	}{
		{"one more", 1, 1, 2, true},
		{"not enforced", 1, 1, 1, false},
		{"enforced where it should not be", 1, 2, 2, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := &lab{runc: layers("runc", tt.runc), sage: layers("sage", tt.sage), policy: layers("policy", tt.policy)}
			if err := l.checkLayers(t.Context()); (err == nil) != tt.ok {
				t.Errorf("got error %v, want none: %v", err, tt.ok)
			}
		})
	}
}

// TestCheckProxied: without a proxy there is no price of one to be measured.
func TestCheckProxied(t *testing.T) {
	for said, ok := range map[string]bool{"wget: server returned error: HTTP/1.1 403 Forbidden": true, "wget: bad address": false} {
		c := fake(t, "agent", "echo '"+said+"'\n")
		c.flags = []string{"--config", "x"}
		if err := c.checkProxied(t.Context()); (err == nil) != ok {
			t.Errorf("%q: got error %v, want none: %v", said, err, ok)
		}
	}
}

func TestRunNeedsBinaries(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{"-runc", "/nonexistent/runc"}, &out, io.Discard)
	if err == nil || out.Len() > 0 {
		t.Errorf("got error %v and output %q, want an error only", err, out.String())
	}
}
