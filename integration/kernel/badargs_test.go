//go:build kernel

package kernel

import (
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

const idFormat = "invalid container ID format"

var badIDs = []struct{ name, id, want string }{
	{"slash", "a/b", idFormat},
	{"parent", "..", idFormat},
	{"way out", "../x", idFormat},
	{"dot", ".", idFormat},
	{"space", "a b", idFormat},
	{"line break", "a\nb", idFormat},
	{"star", "*", idFormat},
	{"letter outside ASCII", "\u00e4", idFormat},
	{"not UTF-8", "\xff\xfe", idFormat},
	{"2000 characters", strings.Repeat("a", 2000), "file name too long"},
	{"256 characters", strings.Repeat("a", 256), "file name too long"},
	{"empty", "", "container id cannot be empty"},
}

func TestBadID(t *testing.T) {
	bundle := harness.NewBundle(t, harness.Args("true"))
	for _, c := range badIDs {
		t.Run(c.name, func(t *testing.T) {
			r := harness.NewRuntime(t)
			for _, args := range [][]string{
				{"create", "--bundle", bundle.Dir},
				{"run", "--bundle", bundle.Dir},
				{"state"},
				{"start"},
				{"kill"},
				{"delete"},
				{"delete", "--force"},
			} {
				refusedLikeRunc(t, r, append(args, c.id), c.want)
			}
		})
	}
}

// refusedLikeRunc runs a command that must fail with runc's phrase.
func refusedLikeRunc(t *testing.T, r *harness.Runtime, args []string, phrase string) {
	t.Helper()
	res := r.Run(t, args...)
	showDifference(t, r, res, args)
	refused(t, r, res, 1)
	if !strings.Contains(said(res), phrase) {
		t.Errorf("%s: got %q, want %q", args[0], res.Stderr, phrase)
	}
}

// badArguments is the half of the wrong command lines that needs a bundle; the
// rest is in integration/cli, which needs no root. An id follows each.
var badArguments = []struct {
	name string
	// args are words between spaces; BUNDLE stands for a good one.
	args, want string
}{
	{"unknown flag", "run --banana", "flag provided but not defined: -banana"},
	{"two ids", "run another", `"run" requires exactly 1 argument(s)`},
	{"no such bundle", "run --bundle /nowhere", "chdir /nowhere: no such file or directory"},
	{"pid file in no folder", "create --bundle BUNDLE --pid-file /nowhere/pid", ": no such file or directory"},
	{"console socket and no terminal", "run --bundle BUNDLE --console-socket /nowhere", "cannot use console socket"},
	{"no such pidfd socket", "run --bundle BUNDLE --pidfd-socket /nowhere", "/nowhere: connect: no such file or directory"},
	{"more fds than there are", "run --bundle BUNDLE --preserve-fds 500", "unable to stat preserved-fd"},
	{"fds no number", "run --bundle BUNDLE --preserve-fds x", `invalid value "x" for flag -preserve-fds`},
}

func TestBadArguments(t *testing.T) {
	bundle := harness.NewBundle(t, harness.Args("true"))
	for _, c := range badArguments {
		t.Run(c.name, func(t *testing.T) {
			args := strings.Fields(strings.ReplaceAll(c.args, "BUNDLE", bundle.Dir))
			refusedLikeRunc(t, harness.NewRuntime(t), append(args, harness.NewID()), c.want)
		})
	}
}
