//go:build engines

package engines

import (
	"path/filepath"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

// hostFileWays are all the ways of a hostFile that start a container in one
// command. CRI, which takes two, and nerdctl, which brings hooks, are below.
var hostFileWays = []struct {
	name string
	run  func(*testing.T, hostFile, ...string) result
}{
	{"docker", func(t *testing.T, h hostFile, args ...string) result {
		return newDocker(t, h.docker()).run(t, append([]string{busybox}, args...)...)
	}},
	{"docker, our shim", func(t *testing.T, h hostFile, args ...string) result {
		return newDocker(t, h.dockerShim()).run(t, append([]string{busybox}, args...)...)
	}},
	{"ctr", func(t *testing.T, h hostFile, args ...string) result {
		return newCtr(t, h.ctr()).run(t, args...)
	}},
	{"ctr, our shim", func(t *testing.T, h hostFile, args ...string) result {
		return newCtr(t, h.ctrShim()).run(t, args...)
	}},
	{"podman", func(t *testing.T, h hostFile, args ...string) result {
		p := newPodman(t, h.podman()...)
		return p.try(t, append(append(podmanRun(), "--rm", busybox), args...)...)
	}},
}

// Each way hands each configuration to the runtime, or a test of the policy
// would pass under the capsule's own configuration, which has none.
func TestHostFiles(t *testing.T) {
	for _, w := range hostFileWays {
		t.Run(w.name, func(t *testing.T) {
			for _, c := range []struct {
				file hostFile
				caps string
			}{
				{softSage, "0000000000000000"},
				{softAgent, "0000000000000000"},
				{softService, "00000000000004fb"},
			} {
				t.Run(c.file.name, func(t *testing.T) {
					w.run(t, c.file, "grep", "CapBnd", "/proc/self/status").want(t, 0, c.caps)
				})
			}
			t.Run(builtIn.name, func(t *testing.T) { wantNoHardLimits(t, w.run(t, builtIn, "true")) })
		})
	}
	t.Run("nerdctl", nerdctlHostFiles)
	c := newCRI(t)
	for _, handler := range []string{builtIn.cri(), builtIn.criShim()} {
		t.Run(handler, func(t *testing.T) {
			sandbox := criFile(t, "refused-"+handler, podConfig(handler))
			wantNoHardLimits(t, c.try(t, "runp", "--runtime", handler, sandbox))
		})
	}
}

// nerdctl is a hook of its own containers, even of those without a network.
var nerdctlHook = newHostFile("nerdctl", harness.SoftSage+"hooks: ["+filepath.Join(cacheDir(), "peers", "bin", "nerdctl")+"]\n")

func nerdctlHostFiles(t *testing.T) {
	run := func(h hostFile, args ...string) result {
		flags := []string{"run", "--rm", "--runtime", h.nerdctl(), "--network=none", "--pull=never", busybox}
		return newNerdctl(t, h.nerdctl()).try(t, append(flags, args...)...)
	}
	run(nerdctlHook, "grep", "CapBnd", "/proc/self/status").want(t, 0, "0000000000000000")
	run(softSage, "true").want(t, 1, "hooks.createRuntime", "sandbox.permission_denied")
	wantNoHardLimits(t, run(builtIn, "true"))
}

func wantNoHardLimits(t *testing.T, r result) {
	t.Helper()
	if r.code == 0 {
		t.Errorf("exit code: got 0, want a refusal; output: %s%s", r.out, r.errs)
	}
	r.want(t, r.code, "sandbox.resource_limits_unsupported")
}
