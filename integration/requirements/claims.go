package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// claim is one test that says it proves one requirement.
type claim struct {
	id, test string // test as "folder.TestName", or the file where it stands outside one
}

// scan reads every test file below top. Build tags play no part: a claim
// counts in whatever ring the test runs.
func scan(top fs.FS) ([]claim, error) {
	var claims []claim
	err := fs.WalkDir(top, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(top, name)
		if err != nil {
			return err
		}
		found, err := claimsOf(name, text)
		claims = append(claims, found...)
		return err
	})
	return claims, err
}

// skipped folders hold no tests of ours: .build is the patched libcontainer.
func skipped(dir string) bool {
	return dir == "testdata" || dir == "bin" || strings.HasPrefix(dir, ".") && dir != "."
}

// claimsOf finds the claims in one test file.
func claimsOf(name string, text []byte) ([]claim, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("read claims: %w", err)
	}
	var claims []claim
	for _, comment := range file.Comments {
		for _, id := range ids(comment.Text()) {
			claims = append(claims, claim{id, place(name, file, comment)})
		}
	}
	return claims, nil
}

// place names the function that a comment documents or stands in.
func place(name string, file *ast.File, comment *ast.CommentGroup) string {
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if ok && (f.Doc == comment || f.Pos() <= comment.Pos() && comment.End() <= f.End()) {
			return path.Dir(name) + "." + f.Name.Name
		}
	}
	return name
}

// one is an id, with what may stand in brackets behind it, and what ends it: only
// a comma says that another follows.
var one = regexp.MustCompile(`^([A-Z]+-[0-9]+|attack [0-9]+)(?: \([^)]*\))?(,\s*|[.:]|\n|$)`)

// ids reads the list after "Proves:", across lines, to where it becomes prose. If
// it is that from the beginning, the text stands for an id, so that a slip of the
// pen shows up as unknown.
func ids(comment string) []string {
	_, list, found := strings.Cut("\n"+comment, "\nProves:")
	if !found {
		return nil
	}
	var all []string
	list = strings.TrimSpace(list)
	for {
		m := one.FindStringSubmatch(list)
		if m == nil {
			break
		}
		all, list = append(all, m[1]), list[len(m[0]):]
		if !strings.HasPrefix(m[2], ",") || list == "" {
			return all
		}
	}
	line, _, _ := strings.Cut(list, "\n")
	return append(all, line)
}
