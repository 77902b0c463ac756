package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ReadmeBlock is the one block of code in the README at the top that is of a
// language and has all phrases in it, as it is printed there.
func ReadmeBlock(tb testing.TB, language string, phrases ...string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(Top(tb), "README.md"))
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	var found []string
	for _, after := range strings.Split("\n"+string(text), "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(after, "\n```")
		if containsAll(block, phrases) {
			found = append(found, block+"\n")
		}
	}
	if len(found) != 1 {
		tb.Fatalf("README.md: saw %d blocks of %s with %q, want one", len(found), language, phrases)
	}
	return found[0]
}

func containsAll(text string, phrases []string) bool {
	for _, p := range phrases {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// ReadmeTable compares the part of the README in the test's folder that lies
// between two comments with want, or puts it there. source is what it is of, for
// people.
func ReadmeTable(tb testing.TB, source, want string, update bool) {
	tb.Helper()
	const begin, end = "<!-- the table, made by go test -update -->\n", "<!-- end -->\n"
	data, err := os.ReadFile("README.md")
	if err != nil {
		tb.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(data), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		tb.Fatalf("README.md: want the lines %q and %q", begin, end)
	}
	if update {
		if err := os.WriteFile("README.md", []byte(before+begin+want+end+after), 0o644); err != nil {
			tb.Fatal(err)
		}
	} else if got != want {
		tb.Errorf("README.md does not show %s: run go test -update", source)
	}
}
