package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// ProbeDir is where probes are in a container that got WithProbes.
const ProbeDir = "/probe"

var probes struct {
	sync.Mutex
	built map[string]bool
}

// Probe builds the C program testdata/NAME.c of the calling test's folder, once
// per process and static, and returns its path inside a container. C, because
// a probe must not have a runtime of its own opening files and starting threads.
func Probe(tb testing.TB, name string) string {
	tb.Helper()
	probes.Lock()
	defer probes.Unlock()
	if !probes.built[name] {
		out := filepath.Join(probeHostDir(tb), name)
		if _, err := Output(exec.Command("cc", "-static", "-O1", "-Wall", "-Werror", "-o", out, filepath.Join("testdata", name+".c"))); err != nil {
			tb.Fatalf("harness: probe %s: %v", name, err)
		}
		if probes.built == nil {
			probes.built = map[string]bool{}
		}
		probes.built[name] = true
	}
	return filepath.Join(ProbeDir, name)
}

// HostProbe is Probe for a program that runs on the host.
func HostProbe(tb testing.TB, name string) string {
	tb.Helper()
	return filepath.Join(probeHostDir(tb), strings.TrimPrefix(Probe(tb, name), ProbeDir))
}

// One folder for all probes: it is mounted once, and what is built later
// appears in it.
func probeHostDir(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(Scratch(tb), "probes")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Fatalf("harness: %v", err)
	}
	return dir
}

// WithProbes mounts the folder of probes into a container, read-only.
func WithProbes(tb testing.TB, s *specs.Spec) {
	tb.Helper()
	s.Mounts = append(s.Mounts, specs.Mount{
		Destination: ProbeDir,
		Source:      probeHostDir(tb),
		Type:        "bind",
		Options:     []string{"bind", "ro"},
	})
}
