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
