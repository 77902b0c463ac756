//go:build kernel

package kernel

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sage-sandbox/sage/integration/harness"
)

// refused checks what every refusal has in common: the exit status, one line on
// the standard error, no words of a Go panic, and an empty state root.
func refused(t *testing.T, r *harness.Runtime, res harness.Result, code int) {
	t.Helper()
	if res.Code != code {
		t.Errorf("got %s, want exit status %d", res, code)
	}
	for _, word := range []string{"panic:", "goroutine ", "runtime error"} {
		if strings.Contains(res.Stdout+res.Stderr, word) {
			t.Errorf("got %s, want no %q", res, word)
		}
	}
	if lines := messages(res.Stderr); len(lines) != 1 {
		t.Errorf("got %d lines on standard error, want 1: %q", len(lines), lines)
	}
	emptyRoot(t, r)
}

// said is the standard error as a person reads it: the log's text form escapes
// the quotes of a message.
func said(res harness.Result) string {
	return strings.ReplaceAll(res.Stderr, `\"`, `"`)
}

func emptyRoot(t *testing.T, r *harness.Runtime) {
	t.Helper()
	entries, err := os.ReadDir(r.Root)
	check(t, err)
	for _, e := range entries {
		// runc does that where its own error handling forgets to: a socket or
		// descriptor that is not there. The test's end deletes it.
		complain := t.Errorf
		if harness.IsRunc(t, r.Bin) {
			complain = t.Logf
		}
		complain("left in the state root: %s", e.Name())
	}
}

// messages leaves out the hint that may follow an error.
func messages(stderr string) []string {
	var lines []string
	for line := range strings.Lines(stderr) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, "hint: ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// showDifference logs where a runtime speaks differently from runc, for whoever
// reviews the messages. It decides nothing.
func showDifference(t *testing.T, r *harness.Runtime, got harness.Result, args []string) {
	t.Helper()
	runc := filepath.Join(harness.Cache(t), "peers", "bin", "runc")
	if _, err := os.Stat(runc); err != nil || harness.IsRunc(t, r.Bin) {
		return
	}
	peer := &harness.Runtime{Bin: runc, Root: filepath.Join(harness.TempDir(t), "root")}
	want := peer.Run(t, args...)
	// What runc made although sage refuses. The id is the last argument.
	peer.Run(t, "delete", "--force", args[len(args)-1])
	if diff := cmp.Diff(neutral(want, runc), neutral(got, r.Bin)); diff != "" {
		t.Logf("%s differs from runc (-runc +this):\n%s", args[0], diff)
	}
}

type spoken struct {
	Code   int
	Stderr string
}

var changing = regexp.MustCompile(`time="[^"]*" |sagetest\d+-\d+|/fd/\d+`)

// neutral takes out the program's own name and path, times and ids.
func neutral(res harness.Result, bin string) spoken {
	text := strings.ReplaceAll(said(res), bin, "PROGRAM")
	text = strings.ReplaceAll(text, filepath.Base(bin)+" ", "PROGRAM ")
	return spoken{res.Code, changing.ReplaceAllString(text, "")}
}
