package archtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// root is the top of the checkout: go test runs in the package's folder.
const root = "../.."

// topLevel is fixed: a new entry is a new part of the product, and people look
// for things where they were.
var topLevel = []string{
	"go.mod", "go.sum", "cmd", "spec", "hardening", "quota", "egress", "darwin-seatbelt", "integration", "internal",
	"Makefile", "README.md", "ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE",
	".golangci.yml", ".ci", ".gitignore",
}

// maxFile is more than any source or table needs, and less than any binary,
// image or vendored tree.
const maxFile = 512 << 10

// vague names say nothing of what is inside, so everything ends up there.
var vague = []string{"util", "utils", "common", "helper", "helpers", "misc", "types"}

func TestTree(t *testing.T) {
	t.Parallel()
	top := os.DirFS(root)
	for _, name := range files(t) {
		for _, problem := range checkFile(top, name) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// TestCheckFile shows that each rule of TestTree can fail.
func TestCheckFile(t *testing.T) {
	tree := map[string][]byte{
		"spec/load.go":              []byte("package spec\n"),
		"pkg/load.go":               []byte("package load\n"),
		"spec/testdata/image.tar":   make([]byte, 8),
		"spec/testdata/big.txt":     bytes.Repeat([]byte("x"), maxFile+1),
		"internal/utils/mount.go":   []byte("package utils\n"),
		"internal/state/helpers.go": []byte("package state\n"),
		"internal/cli/log_util.go":  []byte("package cli\n"),
		"spec/types_test.go":        []byte("package spec\n"),
		"spec/entry_types/x.txt":    []byte("data, so named by its reader\n"),
	}
	want := map[string][]string{
		"pkg/load.go":               {`"pkg" has no place at the top level`},
		"spec/testdata/image.tar":   {"is binary"},
		"spec/testdata/big.txt":     {"has 524289 bytes, want 524288 at most"},
		"internal/utils/mount.go":   {`"utils" says nothing`},
		"internal/state/helpers.go": {`"helpers" says nothing`},
		"internal/cli/log_util.go":  {`"util" says nothing`},
		"spec/types_test.go":        {`"types" says nothing`},
	}
	got := map[string][]string{}
	for name, content := range tree {
		dir := t.TempDir()
		write(t, filepath.Join(dir, name), content)
		if problems := checkFile(os.DirFS(dir), name); problems != nil {
			got[name] = problems
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// checkFile lists the rules that one file of the tree breaks.
func checkFile(top fs.FS, name string) []string {
	var problems []string
	if entry, _, _ := strings.Cut(name, "/"); !slices.Contains(topLevel, entry) {
		problems = append(problems, fmt.Sprintf("%q has no place at the top level", entry))
	}
	if strings.HasSuffix(name, ".go") {
		problems = append(problems, checkName(name)...)
	}
	return append(problems, checkContent(top, name)...)
}

// checkName refuses vague words, also as a part: log_util.go is a util.go.
func checkName(name string) []string {
	var problems []string
	for part := range strings.FieldsFuncSeq(strings.TrimSuffix(name, ".go"), func(r rune) bool {
		return r == '/' || r == '_' || r == '-'
	}) {
		if slices.Contains(vague, part) {
			problems = append(problems, fmt.Sprintf("%q says nothing", part))
		}
	}
	return problems
}

func checkContent(top fs.FS, name string) []string {
	content, err := fs.ReadFile(top, name)
	switch {
	case err != nil:
		return []string{err.Error()}
	case len(content) > maxFile:
		return []string{fmt.Sprintf("has %d bytes, want %d at most", len(content), maxFile)}
	case bytes.IndexByte(content, 0) >= 0:
		return []string{"is binary"}
	}
	return nil
}

// files gives what is in the repository or would be by "git add": ignored
// files are the developer's own. A tree without git is taken as it is.
//
// It walks in either case, since go test keeps a result until a file or folder
// changes that the test itself has opened, and git's opens do not count.
func files(t *testing.T) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if slices.Contains([]string{".git", ".build", "bin"}, name) {
			return fs.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, ".git")); errors.Is(err, fs.ErrNotExist) {
		return names
	}
	known := gitFiles(t)
	return slices.DeleteFunc(names, func(name string) bool { return !known[name] })
}

func gitFiles(t *testing.T) map[string]bool {
	t.Helper()
	// safe.directory: the checkout may belong to another user than the test's.
	cmd := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*",
		"ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	names := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		names[name] = true
	}
	return names
}
