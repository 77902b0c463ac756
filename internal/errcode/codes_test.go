package errcode_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var form = regexp.MustCompile(`^sandbox\.[a-z][a-z0-9]*(_[a-z0-9]+)+$`)

// TestCodes keeps the promise of the package comment: every code is documented
// with a fix, and none that ever shipped (testdata/codes.golden) has gone.
func TestCodes(t *testing.T) {
	golden, err := os.ReadFile("testdata/codes.golden")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("errcode.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range check(t, string(source), string(golden)) {
		t.Error(problem)
	}
}

// TestCheck shows that each rule of TestCodes can fail.
func TestCheck(t *testing.T) {
	const good = "// A occurs when x.\n//\n// Fix: y.\nA Code = \"sandbox.a_b\"\n"
	tests := []struct {
		name, consts, golden string
		want                 []string
	}{
		{"good", good, "sandbox.a_b\n", nil},
		{"new code", good, "", []string{`A: add "sandbox.a_b" to testdata/codes.golden`}},
		{
			"removed code", good, "sandbox.a_b\nsandbox.gone_now\n",
			[]string{`"sandbox.gone_now" has shipped and may not be removed; mark it Deprecated`},
		},
		{
			"used twice", good + strings.ReplaceAll(good, "A", "B"), "sandbox.a_b\n",
			[]string{`B: code "sandbox.a_b" is used twice`},
		},
		{
			"no fix", strings.ReplaceAll(good, "Fix: y", "y"), "sandbox.a_b\n",
			[]string{`A: the comment must start "A occurs when" and have a Fix paragraph`},
		},
		{
			"other form", strings.ReplaceAll(good, "a_b", "AB"), "sandbox.AB\n",
			[]string{`A: code "sandbox.AB" is not sandbox.snake_case`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := check(t, "package p\n\ntype Code string\n\nconst (\n"+tt.consts+")\n", tt.golden)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// check lists what is wrong with the codes of source, given those that shipped.
func check(t *testing.T, source, golden string) []string {
	t.Helper()
	shipped := strings.Fields(golden)
	var problems, have []string
	for _, spec := range constants(t, source) {
		name, code := spec.Names[0].Name, value(t, spec)
		report := func(format string, args ...any) {
			problems = append(problems, name+": "+fmt.Sprintf(format, args...))
		}
		if slices.Contains(have, code) {
			report("code %q is used twice", code)
		}
		if !form.MatchString(code) {
			report("code %q is not sandbox.snake_case", code)
		}
		doc := spec.Doc.Text()
		if !strings.HasPrefix(doc, name+" occurs when ") || !strings.Contains(doc, "\nFix: ") {
			report("the comment must start %q and have a Fix paragraph", name+" occurs when")
		}
		if !slices.Contains(shipped, code) {
			report("add %q to testdata/codes.golden", code)
		}
		have = append(have, code)
	}
	for _, code := range shipped {
		if !slices.Contains(have, code) {
			problems = append(problems, fmt.Sprintf("%q has shipped and may not be removed; mark it Deprecated", code))
		}
	}
	return problems
}

// constants gives every constant that source declares.
func constants(t *testing.T, source string) []*ast.ValueSpec {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "codes.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var specs []*ast.ValueSpec
	for _, decl := range f.Decls {
		if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.CONST {
			for _, spec := range gen.Specs {
				specs = append(specs, spec.(*ast.ValueSpec))
			}
		}
	}
	return specs
}

func value(t *testing.T, spec *ast.ValueSpec) string {
	t.Helper()
	code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
	if err != nil {
		t.Fatal(err)
	}
	return code
}
