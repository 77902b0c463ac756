package harness

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// Host configurations to start from, as the text that HostFile and
// NewRuntimeWith take. The soft ones hold every built-in profile without its
// hard limits, so that a bundle may also choose another than the default, and
// need no file system with quotas. Lines of other keys can be appended to them:
// SoftSage + "audit_dir: /x\n".
const (
	// Compat is runc's behaviour, which most tests of this ring are about.
	Compat = "version: 1\ndefault_profile: compat\n"
	// BuiltIn says nothing, and so the same as no file at all.
	BuiltIn = "version: 1\n"
	// SoftSage has the profile sage where a bundle names none.
	SoftSage = "default_profile: sage\n" + soft
	// SoftAgent has the profile agent there.
	SoftAgent = "default_profile: agent\n" + soft
	// SoftService has the profile service there.
	SoftService = "default_profile: service\n" + soft
)

const (
	soft = `version: 1
profiles:
  sage: ` + unhard + `
  agent: ` + unhard + `
  service: ` + unhard + `
  superagent: ` + unhard + `
  electric: ` + unhard + `
`
	unhard = "{defaults: {resources: {require_hard_limits: false}}}"
)

var hostFiles struct {
	sync.Mutex
	paths map[string]string // by text
}

// HostFile writes a host configuration as root would, and returns its path for
// Runtime.Config. It stays until the test process ends: a container that a test
// left is deleted under the configuration that it was made with.
func HostFile(tb testing.TB, text string) string {
	tb.Helper()
	hostFiles.Lock()
	defer hostFiles.Unlock()
	if path, found := hostFiles.paths[text]; found {
		return path
	}
	path, err := writeHostFile(filepath.Join(Scratch(tb), "host-files"), len(hostFiles.paths), text)
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	if hostFiles.paths == nil {
		hostFiles.paths = map[string]string{}
	}
	hostFiles.paths[text] = path
	return path
}

// A folder of their own, which no test mounts into a container.
func writeHostFile(dir string, n int, text string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, strconv.Itoa(n)+".yaml")
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// ConfigFor is HostFile, and empty for runc, which knows no such file.
func ConfigFor(tb testing.TB, bin, text string) string {
	tb.Helper()
	if IsRunc(tb, bin) {
		return ""
	}
	return HostFile(tb, text)
}
