package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const program = "sage-runtime"

// buildTags are the Makefile's, so that both builds come from one build cache.
const buildTags = "seccomp netgo osusergo urfave_cli_no_docs"

// bin is the folder that is first in the transcripts' PATH.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sage-cli-")
	if err == nil {
		defer os.RemoveAll(dir)
		bin = dir
		err = provide(filepath.Join(dir, program))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "binary under test:", err)
		return 1
	}
	return m.Run()
}

// provide puts the binary at path: the one that SAGE_BIN names, else a build of
// the checkout. Not bin/ of the checkout: that may be older than the sources.
func provide(path string) error {
	if given := os.Getenv("SAGE_BIN"); given != "" {
		abs, err := filepath.Abs(given)
		if err != nil {
			return err
		}
		if _, err := os.Stat(abs); err != nil {
			return err
		}
		return os.Symlink(abs, path)
	}
	cmd := exec.Command("go", "build", "-tags", buildTags, "-o", path, "../../cmd/"+program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
