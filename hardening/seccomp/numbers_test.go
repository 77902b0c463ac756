package seccomp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNumbers compares both tables with the constants of golang.org/x/sys,
// name by name in both directions, whatever this machine is.
//
// Proves: S-107, G-02.
func TestNumbers(t *testing.T) {
	for _, arch := range []Arch{AMD64, ARM64} {
		t.Run(arch.String(), func(t *testing.T) {
			got := map[string]int{}
			for nr, name := range arch.names() {
				if name != "" {
					got[name] = nr
				}
			}
			want, newer := map[string]int{}, map[string]int{}
			for name, nr := range constants(t, arch) {
				if nr > maxCall {
					newer[name] = nr
				} else {
					want[name] = nr
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("system calls (-x/sys +ours):\n%s", diff)
			}
			// A new one here has to be judged: raise maxCall and give it a rule if
			// it needs one, or write it down as left out, as maxCall's comment does.
			if diff := cmp.Diff(map[string]int{"rseq_slice_yield": 471}, newer); diff != "" {
				t.Errorf("known to x/sys and above maxCall (-want +got):\n%s", diff)
			}
			if newest := len(arch.names()) - 1; newest != maxCall {
				t.Errorf("the newest call in the table is %d, want maxCall, which is %d", newest, maxCall)
			}
		})
	}
}

// TestNames: every name in the rules has a number or is said not to have one,
// and what is said not to have one has none.
func TestNames(t *testing.T) {
	var inRules []string
	for _, r := range rules() {
		inRules = append(inRules, strings.Fields(r.calls)...)
	}
	for _, arch := range []Arch{AMD64, ARM64} {
		var want []string
		for _, name := range inRules {
			if !slices.Contains(arch.names(), name) {
				want = append(want, name)
			}
		}
		got := strings.Fields(absent[arch])
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: absent calls (-want +got):\n%s", arch, diff)
		}
	}
	if _, err := AMD64.numbers("mount moutn"); err == nil {
		t.Error("a misspelled call was left out without an error")
	}
}

// constants parses the SYS_* of x/sys for an architecture that may not be ours.
func constants(t *testing.T, arch Arch) map[string]int {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+arch.String()+".go")
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			call, isCall := strings.CutPrefix(spec.Names[0].Name, "SYS_")
			nr, err := strconv.Atoi(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil || !isCall {
				t.Errorf("%s: cannot read the constant %s", name, spec.Names[0].Name)
			}
			found[strings.ToLower(call)] = nr
		}
		return true
	})
	return found
}
