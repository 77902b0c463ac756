package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestImports holds the module to the table of design.md section 8.
func TestImports(t *testing.T) {
	t.Parallel()
	// Both, since a file may also be left out by the tags of a test ring.
	for _, tags := range []string{"", "kernel,engines"} {
		for _, p := range list(t, "-tags="+tags, module+"/...") {
			for _, problem := range checkImports(p) {
				t.Errorf("%s (tags %q)", problem, tags)
			}
		}
	}
}

// TestLinked looks at whole binaries: a dependency of a dependency is code
// that runs too.
func TestLinked(t *testing.T) {
	t.Parallel()
	for name, forbidden := range unlinked {
		if written, _ := filepath.Glob(filepath.Join(root, name, "*.go")); written == nil {
			continue // a binary of a later step: the rule waits for it
		}
		for _, p := range list(t, "-deps", module+"/"+name) {
			if withinAny(p.ImportPath, forbidden) {
				t.Errorf("%s links %s", name, p.ImportPath)
			}
		}
	}
}

// TestCheckImports shows that each rule of TestImports can fail.
func TestCheckImports(t *testing.T) {
	tests := []struct {
		name string
		p    listed
		want []string
	}{
		{"edge in the table", listed{ImportPath: module + "/spec", Imports: []string{module + "/egress", "net/netip"}}, nil},
		{
			"no place",
			listed{ImportPath: module + "/internal/extras"},
			[]string{"internal/extras: not in the import table; give it a place before giving it code"},
		},
		{
			"forbidden edge",
			listed{ImportPath: module + "/spec", Imports: []string{module + "/hardening"}},
			[]string{"spec imports hardening, which the import table forbids"},
		},
		{
			"forbidden edge of a test",
			listed{ImportPath: module + "/spec", TestImports: []string{module + "/hardening"}},
			[]string{"spec imports hardening, which the import table forbids"},
		},
		{"external test of itself", listed{ImportPath: module + "/spec", XTestImports: []string{module + "/spec"}}, nil},
		{
			"integration reaches in",
			listed{ImportPath: module + "/integration/kernel", XTestImports: []string{module + "/internal/errcode"}},
			[]string{"integration/kernel imports internal/errcode, which the import table forbids"},
		},
		{
			"pure package acts",
			listed{ImportPath: module + "/quota", Imports: []string{"os/exec"}},
			[]string{`quota is a pure package and imports "os/exec"`},
		},
		{"test of a pure package may act", listed{ImportPath: module + "/quota", TestImports: []string{"os"}}, nil},
		{
			"libcontainer elsewhere",
			listed{ImportPath: module + "/internal/cli", Imports: []string{libcontainer + "/utils"}},
			[]string{"internal/cli imports " + libcontainer + "/utils; only [internal/runtime] may"},
		},
		{"init hook", listed{ImportPath: module + "/cmd/sage-runtime", Imports: []string{libcontainer, libcontainer + "/nsenter"}}, nil},
		{
			"more than the init hook",
			listed{ImportPath: module + "/cmd/sage-runtime", Imports: []string{libcontainer + "/specconv"}},
			[]string{"cmd/sage-runtime imports " + libcontainer + "/specconv; only [internal/runtime] may"},
		},
		{
			"containerd elsewhere",
			listed{ImportPath: module + "/cmd/containerd-shim-sage-v2", Imports: []string{"github.com/containerd/containerd/v2/pkg/shim"}},
			[]string{"cmd/containerd-shim-sage-v2 imports github.com/containerd/containerd/v2/pkg/shim; only [internal/shim] may"},
		},
		{"a module of containerd's beside it", listed{ImportPath: module + "/internal/runtime", Imports: []string{"github.com/containerd/console"}}, nil},
		{
			"unsafe elsewhere",
			listed{ImportPath: module + "/internal/runtime", Imports: []string{"unsafe"}},
			[]string{"internal/runtime imports unsafe; only [internal/sys] may"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, checkImports(tt.p)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTable keeps the table itself in order: every name in it has a row, and
// no chain of edges leads back to its start, which Go would refuse too, but
// only once both packages are written.
func TestTable(t *testing.T) {
	for name := range allowed {
		if reachable(name)[name] {
			t.Errorf("%s imports itself in the end", name)
		}
		for _, imp := range allowed[name] {
			if _, ok := allowed[imp]; !ok {
				t.Errorf("%s may import %s, which has no row", name, imp)
			}
		}
	}
	for _, name := range pure {
		for imp := range reachable(name) {
			if !slices.Contains(pure, imp) {
				t.Errorf("%s is pure and may import %s, which is not", name, imp)
			}
		}
	}
}

func reachable(name string) map[string]bool {
	seen := map[string]bool{}
	next := slices.Clone(allowed[name])
	for len(next) > 0 {
		imp := next[0]
		next = next[1:]
		if !seen[imp] {
			seen[imp] = true
			next = append(next, allowed[imp]...)
		}
	}
	return seen
}

// checkImports lists the rules that one package breaks.
func checkImports(p listed) []string {
	name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
	edges, ok := allowed[name]
	if !ok {
		return []string{name + ": not in the import table; give it a place before giving it code"}
	}
	var problems []string
	for _, imp := range p.all() {
		local, isLocal := strings.CutPrefix(imp, module+"/")
		if isLocal && local != name && !slices.Contains(edges, local) {
			problems = append(problems, fmt.Sprintf("%s imports %s, which the import table forbids", name, local))
		}
		for _, o := range owners {
			if within(imp, o.dep) && !o.permits(name, imp) {
				problems = append(problems, fmt.Sprintf("%s imports %s; only %v may", name, imp, o.owners))
			}
		}
	}
	return append(problems, checkPure(name, p.Imports)...)
}

func checkPure(name string, imports []string) []string {
	if !slices.Contains(pure, name) {
		return nil
	}
	var problems []string
	for _, imp := range imports {
		if withinAny(imp, impure) && !slices.Contains(values, imp) {
			problems = append(problems, fmt.Sprintf("%s is a pure package and imports %q", name, imp))
		}
	}
	return problems
}

func (o owner) permits(name, imp string) bool {
	return slices.Contains(o.owners, name) || slices.Contains(o.guests[name], imp)
}

// listed is what the go command knows of one package.
type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// all is every import once: tests obey the table as the code does.
func (p listed) all() []string {
	imports := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
	slices.Sort(imports)
	return slices.Compact(imports)
}

func list(t *testing.T, args ...string) []listed {
	t.Helper()
	args = append([]string{"list", "-json=ImportPath,Imports,TestImports,XTestImports"}, args...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return decode(t, string(out))
}

func decode(t *testing.T, out string) []listed {
	t.Helper()
	var pkgs []listed
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var p listed
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return pkgs
		case err != nil:
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}
