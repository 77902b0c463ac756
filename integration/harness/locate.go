package harness

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Top returns the root of the checkout, found from the test's own folder.
func Top(tb testing.TB) string {
	tb.Helper()
	dir, err := findTop()
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	return dir
}

func findTop() (string, error) {
	// go test starts every test in its package's folder, so walking up works
	// under -trimpath too, where the compiled-in source paths do not.
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
	}
	return "", errors.New("no go.mod above " + dir)
}

// Cache returns the folder that peers and root file systems are built into.
func Cache(tb testing.TB) string {
	tb.Helper()
	if dir := os.Getenv("SAGE_CACHE"); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		tb.Fatalf("harness: no cache folder: set SAGE_CACHE, XDG_CACHE_HOME or HOME: %v", err)
	}
	return filepath.Join(dir, "sage")
}

// Peer returns the path of a peer's binary, such as "containerd" or "cni/bridge".
func Peer(tb testing.TB, name string) string {
	tb.Helper()
	return mustBe(tb, filepath.Join(Cache(tb), "peers", "bin", name), `run "make peers"`)
}

// Sage returns the runtime under test: $SAGE_BIN, else the checkout's own build.
func Sage(tb testing.TB) string {
	tb.Helper()
	return fromEnv(tb, "SAGE_BIN", "sage-runtime")
}

// SageShim returns the shim under test: $SAGE_SHIM, else the checkout's own build.
func SageShim(tb testing.TB) string {
	tb.Helper()
	return fromEnv(tb, "SAGE_SHIM", "containerd-shim-sage-v2")
}

// IsRunc reports whether a runtime is runc itself, the reference. Tests of what
// sage promises beyond runc ask, so that the same ring runs against both.
func IsRunc(tb testing.TB, bin string) bool {
	tb.Helper()
	return strings.HasPrefix(versionLine(tb, bin), "runc version")
}

var versions sync.Map // path of a runtime to the first line of its version

func versionLine(tb testing.TB, bin string) string {
	tb.Helper()
	if line, found := versions.Load(bin); found {
		return line.(string)
	}
	out, err := Output(exec.Command(bin, "--version"))
	if err != nil {
		tb.Fatalf("harness: %s --version: %v", bin, err)
	}
	line, _, _ := strings.Cut(out, "\n")
	versions.Store(bin, line)
	return line
}

func fromEnv(tb testing.TB, key, name string) string {
	tb.Helper()
	if path := os.Getenv(key); path != "" {
		return mustBe(tb, path, "it is what "+key+" names")
	}
	return mustBe(tb, filepath.Join(Top(tb), "bin", name), `run "make build"`)
}

// A missing requirement fails: whoever asked for the ring wants to know.
func mustBe(tb testing.TB, path, hint string) string {
	tb.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	if _, err := os.Stat(abs); err != nil {
		tb.Fatalf("harness: %v: %s", err, hint)
	}
	return abs
}
