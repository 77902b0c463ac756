package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	const document = "## 9. Findings\n\n| ID | Finding | Evidence |\n|---|---|---|\n" +
		"| G-01 | a name goes stale | seen |\n| K-08 | a `pipe` | x |\n\nG-02 in prose is no row.\n"
	want := []requirement{{"G-01", "a name goes stale"}, {"K-08", "a `pipe`"}}
	if diff := cmp.Diff(want, parse(document), cmp.AllowUnexported(requirement{})); diff != "" {
		t.Errorf("requirements (-want +got):\n%s", diff)
	}
}

// TestIDList fails when the list and the catalogue drift apart, on a machine
// that has the catalogue.
func TestIDList(t *testing.T) {
	document := os.Getenv("SAGE_REQUIREMENTS")
	if document == "" {
		document = "../../../shared/reference/requirements.md"
		if _, err := os.Stat(document); err != nil {
			t.Skipf("the catalogue is not beside this checkout: %v", err)
		}
	}
	catalogue, err := load("../..", document)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, req := range catalogue {
		want = append(want, req.id)
	}
	if diff := cmp.Diff(want, strings.Fields(idList)); diff != "" {
		t.Errorf("ids.txt against %s (-want +got):\n%s", document, diff)
	}
}

func TestCheckedIn(t *testing.T) {
	all := checkedIn()
	if len(all) != 375 {
		t.Errorf("got %d ids, want 375: 148 S, 49 A, 70 E, 15 C, 65 K, 28 G", len(all))
	}
	for i, req := range all {
		if slices.Contains(all[:i], req) {
			t.Errorf("%s is listed twice", req.id)
		}
	}
}

func TestScan(t *testing.T) {
	claimed := func(comment string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("package p\n\n" + comment + "\nfunc TestOne(t *testing.T) {}\n")}
	}
	tests := []struct {
		name string
		tree fstest.MapFS
		want []claim
	}{
		{
			"doc of a test",
			fstest.MapFS{"a/x_test.go": claimed("// TestOne is one.\n//\n// Proves: K-08, G-02.")},
			[]claim{{"K-08", "a.TestOne"}, {"G-02", "a.TestOne"}},
		},
		{
			"carried on by a comma",
			fstest.MapFS{"a/x_test.go": claimed("// Proves: K-08,\n// G-02\n// S-01 in prose.")},
			[]claim{{"K-08", "a.TestOne"}, {"G-02", "a.TestOne"}},
		},
		{
			"inside a test",
			fstest.MapFS{"a/x_test.go": {Data: []byte("package p\n\nfunc TestOne() {\n\t// Proves: K-08\n\t_ = 1\n}\n")}},
			[]claim{{"K-08", "a.TestOne"}},
		},
		{
			"outside a test",
			fstest.MapFS{"a/x_test.go": {Data: []byte("package p\n\n// Proves: K-08\n\nvar x int\n")}},
			[]claim{{"K-08", "a/x_test.go"}},
		},
		{
			"behind a build tag",
			fstest.MapFS{"a/x_test.go": {Data: []byte("//go:build kernel\n\npackage p\n\n// Proves: K-08\nfunc TestOne() {}\n")}},
			[]claim{{"K-08", "a.TestOne"}},
		},
		{
			"slip of the pen is kept",
			fstest.MapFS{"a/x_test.go": claimed("// Proves: K-08 and G-02")},
			[]claim{{"K-08 and G-02", "a.TestOne"}},
		},
		{"quoted in prose", fstest.MapFS{"a/x_test.go": claimed("// TestOne has a comment `Proves: K-08`.")}, nil},
		{"no test file", fstest.MapFS{"a/x.go": claimed("// Proves: K-08")}, nil},
		{"not ours", fstest.MapFS{".build/x_test.go": claimed("// Proves: K-08"), "a/testdata/x_test.go": claimed("// Proves: K-08")}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := scan(tt.tree)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(claim{})); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScanRefusesBrokenFile(t *testing.T) {
	if _, err := scan(fstest.MapFS{"x_test.go": {Data: []byte("pack age p\n")}}); err == nil {
		t.Error("got no error, want one: a file that is not read may hold claims")
	}
}

// TestRun is the whole program on a small tree.
func TestRun(t *testing.T) {
	const proving = "package p\n\n// Proves: S-001\nfunc TestOne() {}\n"
	const catalogue = "| S-001 | first | x |\n| S-002 | second | x |\n"
	tests := []struct {
		name, test, document, stdout, stderr string
		status                               int
	}{
		{"known ids", proving, catalogue, "Proved by a test: 1 of 2\n\n  S-001  first\n         a.TestOne\n\nNot proved: 1\n\n  S-002  second\n", "", 0},
		{
			"unknown id", strings.ReplaceAll(proving, "S-001", "S-003"), catalogue,
			"Proved by a test: 0 of 2\n\n\nNot proved: 2\n\n  S-001  first\n  S-002  second\n\nUnknown ids: 1\n\n  S-003  a.TestOne\n", "", 1,
		},
		{"named catalogue is missing", proving, "", "", "requirements: open DOCUMENT: no such file or directory\n", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			document := filepath.Join(root, "requirements.md")
			write(t, filepath.Join(root, "a", "x_test.go"), tt.test)
			if tt.document != "" {
				write(t, document, tt.document)
			}
			var stdout, stderr bytes.Buffer
			status := run([]string{"-root", root, "-document", document}, &stdout, &stderr)
			if status != tt.status {
				t.Errorf("status: got %d, want %d", status, tt.status)
			}
			if diff := cmp.Diff(tt.stdout, stdout.String()); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.stderr, strings.ReplaceAll(stderr.String(), document, "DOCUMENT")); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRunWithoutCatalogue is a checkout on its own: ids are still checked.
func TestRunWithoutCatalogue(t *testing.T) {
	t.Setenv("SAGE_REQUIREMENTS", "")
	root := filepath.Join(t.TempDir(), "checkout")
	write(t, filepath.Join(root, "x_test.go"), "package p\n\n// Proves: S-001\nfunc TestOne() {}\n")
	var stdout, stderr bytes.Buffer
	if status := run([]string{"-root", root}, &stdout, &stderr); status != 0 {
		t.Errorf("status: got %d, want 0; stderr %q", status, stderr.String())
	}
	if !strings.HasPrefix(stdout.String(), "Proved by a test: 1 of 375\n") {
		t.Errorf("got %.60q, want 1 of 375 proved", stdout.String())
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
