//go:build engines

package engines

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestEgressReadmeDocker: what the README shows of the network and of Docker
// works as it is printed, with the programs where make install puts them.
func TestEgressReadmeDocker(t *testing.T) {
	needDockerd(t)
	w := newOutside(t)
	readmeHost(t)
	installed(t)
	readmeImages(t)
	commands := harness.ReadmeBlock(t, "sh", "sage-runtime policy test", "docker run")
	test, run, _ := strings.Cut(commands, "docker run ")
	readmeDocker(t, test).want(t, 1, "allow https://pypi.org", "deny  https://example.com")
	for name, phrase := range map[string]string{"runtime": "/usr/local/bin/sage-runtime", "shim": "runtimeType"} {
		t.Run(name, func(t *testing.T) {
			var keys map[string]any
			if err := json.Unmarshal([]byte(harness.ReadmeBlock(t, "json", phrase)), &keys); err != nil {
				t.Fatal(err)
			}
			configureDocker(t, keys)
			run := "docker run " + run
			readmeDocker(t, run).want(t, 0, harness.Answered)
			denied := readmeDocker(t, strings.Replace(run, "https://pypi.org/", "https://example.com/", 1))
			denied.want(t, max(denied.code, 1), "403")
			withoutHardLimits(t)
			readmeDocker(t, harness.ReadmeBlock(t, "sh", "docker run", "alpine echo hello")).want(t, 0, "hello")
		})
	}
	if w.Asked("example.com") || w.Served("example.com") {
		t.Error("what is denied was asked for outside")
	}
}

// readmeDocker runs commands with the ring's dockerd as the machine's.
func readmeDocker(t *testing.T, block string) result {
	t.Helper()
	return readmeCommand(t, "export DOCKER_HOST=unix://"+theRing.dockerSocket()+"\n"+block)
}

// withoutHardLimits puts the README's file for hosts like this one in the place
// of the one that is there, until the test is over.
func withoutHardLimits(t *testing.T) {
	t.Helper()
	const path = "/etc/sage/config.yaml"
	before, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(harness.ReadmeBlock(t, "yaml", "sage: {defaults: {resources: {require_hard_limits: false}}}")), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(path, before, 0o644); err != nil {
			t.Error(err)
		}
	})
}

// installed does what make install does. The folder is under a layer that goes
// with the capsule.
func installed(t *testing.T) {
	t.Helper()
	for _, name := range []string{"sage-runtime", "containerd-shim-sage-v2", "sage-egress"} {
		to := filepath.Join("/usr/local/bin", name)
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if err := copyProgram(theRing.path("bin", name), to); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(to) })
	}
}

// readmeImages gives Docker what the README would have it fetch.
func readmeImages(t *testing.T) {
	t.Helper()
	d := newDocker(t, "")
	d.must(t, "tag", busybox, "alpine")
	rootfs, err := os.ReadFile(rootfsTar())
	if err != nil {
		t.Fatal(err)
	}
	tree, err := harness.CurlTree(rootfs, harness.WorldCA(t))
	if err != nil {
		t.Fatal(err)
	}
	d.feed(t, string(tree), "import", "-", "curlimages/curl").want(t, 0)
}
