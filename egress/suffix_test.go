package egress

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"
)

var update = flag.Bool("update", false, "rewrite suffixes.txt from the pinned golang.org/x/net")

// rules reads the list from the test data of golang.org/x/net/publicsuffix, as
// its API answers for one name at a time only.
func rules(t *testing.T) []string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "golang.org/x/net/publicsuffix").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	name := filepath.Join(strings.TrimSpace(string(dir)), "table_test.go")
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "rules" {
			return true
		}
		for _, e := range spec.Values[0].(*ast.CompositeLit).Elts {
			rule, err := strconv.Unquote(e.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, rule)
		}
		return false
	})
	if len(list) < 9000 {
		t.Fatalf("got %d rules from %s, want thousands", len(list), name)
	}
	return list
}

// TestSuffixes holds the table to the list that it was made from.
func TestSuffixes(t *testing.T) {
	var lines []string
	for _, rule := range rules(t) {
		if strings.Contains(rule, ".") {
			lines = append(lines, ruleHash(rule)+"\n")
		}
	}
	slices.Sort(lines)
	want := strings.Join(slices.Compact(lines), "")
	if *update {
		if err := os.WriteFile("suffixes.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if suffixes != want {
		t.Errorf("suffixes.txt is not what golang.org/x/net gives; run: go test ./egress -run TestSuffixes -update")
	}
}

// TestIsPublicSuffix asks the package that the table replaces.
func TestIsPublicSuffix(t *testing.T) {
	for _, rule := range rules(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(rule, "!"), "*.")
		for _, name := range []string{name, "example." + name, "a.example." + name} {
			suffix, _ := publicsuffix.PublicSuffix(name)
			below, _ := publicsuffix.PublicSuffix("x." + name)
			// The second half: a rule *.name makes every child of name a suffix.
			want := suffix == name || below == "x."+name
			if got := isPublicSuffix(name); got != want {
				t.Errorf("isPublicSuffix(%q): got %v, want %v", name, got, want)
			}
		}
	}
}
