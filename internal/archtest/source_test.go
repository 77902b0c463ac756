package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The budget: what a reader can hold. Lines of a function are counted from
// "func" to its closing brace, those of a file from its first to its last. A
// test is held to the file's only: most of a long one is its table.
const (
	maxFileLines   = 600
	maxFuncLines   = 80
	maxMedianLines = 10
)

// mayInit are the packages with an init function: container init must run
// before main, and containerd finds a plugin by its registration.
var mayInit = []string{"cmd/sage-runtime", "internal/shim"}

// TestSources holds every Go file of the module to the budget and the habits.
func TestSources(t *testing.T) {
	t.Parallel()
	var all []source
	for _, name := range sourceNames(files(t)) {
		all = append(all, parse(t, name, nil))
	}
	for _, problem := range checkSources(all) {
		t.Error(problem)
	}
}

// TestCheckSources shows that each rule of TestSources can fail.
func TestCheckSources(t *testing.T) {
	const documented = "// Package p is p.\npackage p\n"
	lines := func(n int) string { return strings.Repeat("\t_ = 0\n", n) }
	tests := []struct {
		name, file, text string
		want             []string
	}{
		{"fine", "spec/p.go", documented + "func f() {\n" + lines(8) + "}\n", nil},
		{
			"no package comment", "spec/p.go", "package p\n",
			[]string{"spec: package p has 0 package comments, want 1"},
		},
		{
			"other start", "spec/p.go", "// The package p.\npackage p\n",
			[]string{`spec/p.go: the package comment must start "Package p "`},
		},
		{"a program is named otherwise", "cmd/sage-runtime/main.go", "// Command p runs.\npackage main\n", nil},
		{
			"long file", "spec/p.go", documented + strings.Repeat("//\n", maxFileLines-1),
			[]string{"spec/p.go: has 601 lines, want 600 at most"},
		},
		{
			"long function", "spec/p.go", documented + "func g() {}\nfunc f() {\n" + lines(79) + "}\n",
			[]string{"spec/p.go: f has 81 lines, want 80 at most"},
		},
		{"long test", "spec/p_test.go", documented + "func f() {\n" + lines(79) + "}\n", nil},
		{
			"long on the whole", "spec/p.go", documented + "func f() {\n" + lines(9) + "}\n",
			[]string{"the median function has 11 lines, want 10 at most"},
		},
		{
			"init", "spec/p.go", documented + "func init() {}\n",
			[]string{"spec/p.go: has an init function"},
		},
		{"init of the hook", "cmd/sage-runtime/main.go", "// Command p runs.\npackage main\nfunc init() {}\n", nil},
		{
			"vague package", "spec/p.go", "// Package util is p.\npackage util\n",
			[]string{`spec/p.go: package name "util" says nothing`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := checkSources([]source{parse(t, tt.file, []byte(tt.text))})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPackageComments counts over files, the tests' included.
func TestPackageComments(t *testing.T) {
	doc := "// Package p is p.\n"
	tests := []struct {
		name  string
		texts map[string]string
		want  []string
	}{
		{"once in two files", map[string]string{"a.go": doc + "package p\n", "b.go": "package p\n"}, nil},
		{
			"twice",
			map[string]string{"a.go": doc + "package p\n", "b.go": doc + "package p\n"},
			[]string{"spec: package p has 2 package comments, want 1"},
		},
		{"tests only", map[string]string{"a_test.go": doc + "package p\n"}, nil},
		{"external test needs none", map[string]string{"a.go": doc + "package p\n", "a_test.go": "package p_test\n"}, nil},
		{"external tests only", map[string]string{"a_test.go": doc + "package p_test\n"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var all []source
			for name, text := range tt.texts {
				all = append(all, parse(t, "spec/"+name, []byte(text)))
			}
			if diff := cmp.Diff(tt.want, checkComments(all)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// sourceNames leaves out what is no code of this module: testdata, and the
// folders that are modules of their own (the peers and the tools).
func sourceNames(names []string) []string {
	others := []string{}
	for _, name := range names {
		if path.Base(name) == "go.mod" && name != "go.mod" {
			others = append(others, path.Dir(name))
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return path.Ext(name) != ".go" || withinAny(name, others) || slices.Contains(strings.Split(name, "/"), "testdata")
	})
}

func TestSourceNames(t *testing.T) {
	got := sourceNames([]string{
		"go.mod", "README.md", "spec/load.go", "spec/testdata/x.go",
		"integration/peers/runc/go.mod", "integration/peers/runc/tools.go", "integration/peers.go",
	})
	if diff := cmp.Diff([]string{"spec/load.go", "integration/peers.go"}, got); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

// source is one parsed Go file.
type source struct {
	name string // path from the top of the checkout
	set  *token.FileSet
	file *ast.File
}

// parse reads the file of that name, or takes text for its content.
func parse(t *testing.T, name string, text []byte) source {
	t.Helper()
	src := any(text)
	if text == nil {
		src = nil
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, filepath.Join(root, name), src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return source{name, set, file}
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// pkg is the package's name, under which its external test counts too.
func (s source) pkg() string { return strings.TrimSuffix(s.file.Name.Name, "_test") }

func (s source) lines(n ast.Node) int {
	return s.set.Position(n.End()).Line - s.set.Position(n.Pos()).Line + 1
}

func (s source) funcs() []*ast.FuncDecl {
	var funcs []*ast.FuncDecl
	for _, decl := range s.file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			funcs = append(funcs, f)
		}
	}
	return funcs
}

func checkSources(all []source) []string {
	problems := checkComments(all)
	var sizes []int
	for _, s := range all {
		problems = append(problems, checkSource(s)...)
		for _, f := range s.funcs() {
			if !s.isTest() {
				sizes = append(sizes, s.lines(f))
			}
		}
	}
	if n := median(sizes); n > maxMedianLines {
		problems = append(problems, fmt.Sprintf("the median function has %d lines, want %d at most", n, maxMedianLines))
	}
	return problems
}

func median(sizes []int) int {
	if len(sizes) == 0 {
		return 0
	}
	slices.Sort(sizes)
	return sizes[(len(sizes)-1)/2]
}

// checkSource lists the rules that one file breaks.
func checkSource(s source) []string {
	var problems []string
	report := func(format string, args ...any) {
		problems = append(problems, s.name+": "+fmt.Sprintf(format, args...))
	}
	if slices.Contains(vague, s.pkg()) {
		report("package name %q says nothing", s.pkg())
	}
	if n := s.set.File(s.file.FileStart).LineCount(); n > maxFileLines {
		report("has %d lines, want %d at most", n, maxFileLines)
	}
	for _, f := range s.funcs() {
		if n := s.lines(f); n > maxFuncLines && !s.isTest() {
			report("%s has %d lines, want %d at most", f.Name.Name, n, maxFuncLines)
		}
		if f.Recv == nil && f.Name.Name == "init" && !slices.Contains(mayInit, path.Dir(s.name)) {
			report("has an init function")
		}
	}
	if doc := s.file.Doc; doc != nil && s.pkg() != "main" && !strings.HasPrefix(doc.Text(), "Package "+s.pkg()+" ") {
		report("the package comment must start %q", "Package "+s.pkg()+" ")
	}
	return problems
}

// checkComments wants one package comment for each folder that holds code.
func checkComments(all []source) []string {
	count, names := map[string]int{}, map[string]string{}
	var dirs []string
	for _, s := range all {
		dir := path.Dir(s.name)
		if _, ok := names[dir]; !ok {
			names[dir] = s.pkg()
			dirs = append(dirs, dir)
		}
		if s.file.Doc != nil {
			count[dir]++
		}
	}
	var problems []string
	for _, dir := range dirs {
		if count[dir] != 1 {
			problems = append(problems, fmt.Sprintf("%s: package %s has %d package comments, want 1", dir, names[dir], count[dir]))
		}
	}
	return problems
}
