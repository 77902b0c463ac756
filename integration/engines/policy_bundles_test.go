//go:build engines

package engines

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
	"github.com/sage-sandbox/sage/integration/victim/expect"
)

// special has what a host lists for Kubernetes and nerdctl: the namespaces that
// the containers of a pod share, and nerdctl itself, which is its own hook.
var (
	special     = "shared_namespaces: [network, ipc, uts]\nhooks: [" + filepath.Join(cacheDir(), "peers", "bin", "nerdctl") + "]\n"
	listedSage  = newHostFile("listed-sage", harness.SoftSage+special)
	listedAgent = newHostFile("listed-agent", harness.SoftAgent+special)
)

// TestPolicyDefaultBundles: what each engine makes without any flag starts, and
// is confined, with the engine's own profile beside sage's.
//
// Proves: S-105.
func TestPolicyDefaultBundles(t *testing.T) {
	for _, c := range []struct {
		file    hostFile
		listed  hostFile
		profile expect.Profile
	}{
		{softSage, listedSage, expect.Sage},
		{softAgent, listedAgent, expect.Agent},
	} {
		t.Run(string(c.profile), func(t *testing.T) {
			t.Run("docker", func(t *testing.T) { dockerDefault(t, c.file.docker(), c.profile) })
			t.Run("docker by our shim", func(t *testing.T) { dockerDefault(t, c.file.dockerShim(), c.profile) })
			t.Run("ctr", func(t *testing.T) { ctrDefault(t, c.file.ctr(), c.profile) })
			t.Run("ctr by our shim", func(t *testing.T) { ctrDefault(t, c.file.ctrShim(), c.profile) })
			t.Run("nerdctl", func(t *testing.T) { nerdctlDefault(t, c.listed.nerdctl(), c.profile) })
			t.Run("podman", func(t *testing.T) { podmanDefault(t, c.file, c.profile) })
			t.Run("pod", func(t *testing.T) { podDefault(t, c.listed.cri()) })
			t.Run("pod by our shim", func(t *testing.T) { podDefault(t, c.listed.criShim()) })
		})
	}
}

func dockerDefault(t *testing.T, runtime string, p expect.Profile) {
	dockerVictim(t)
	d := newDocker(t, runtime)
	d.run(t, busybox, "sh", "-c", "echo works; exit 3").want(t, 3, "works")
	wantConfined(t, p, d.run(t, "--tmpfs=/tmp:mode=1777,exec", victimImage, expect.Program, "init"), false)
	id := d.idle(t)
	d.try(t, "exec", id, "sh", "-c", "echo entered; exit 4").want(t, 4, "entered")
}

func ctrDefault(t *testing.T, way []string, p expect.Profile) {
	containerdVictim(t)
	c := newCtr(t, way)
	c.run(t, "sh", "-c", "echo works; exit 3").want(t, 3, "works")
	flags := slices.Concat([]string{"run", "--rm", "--mount", "type=tmpfs,dst=/tmp,options=mode=1777"}, c.way)
	wantConfined(t, p, c.try(t, append(flags, victimImage, newID(), expect.Program, "init")...), false)
}

func nerdctlDefault(t *testing.T, runtime string, p expect.Profile) {
	containerdVictim(t)
	n := newNerdctl(t, runtime)
	run := []string{"run", "--rm", "--runtime", n.runtime, "--network=none", "--pull=never"}
	n.try(t, append(run, busybox, "sh", "-c", "echo works; exit 3")...).want(t, 3, "works")
	wantConfined(t, p, n.try(t, append(run, "--tmpfs=/tmp:mode=1777", victimImage, expect.Program, "init")...), false)
}

func podmanDefault(t *testing.T, h hostFile, p expect.Profile) {
	archive := needVictim(t)
	c := newPodman(t, h.podman()...)
	c.must(t, "import", archive, victimImage)
	run := append(podmanRun(), "--rm")
	c.try(t, append(run, busybox, "sh", "-c", "echo works; exit 3")...).want(t, 3, "works")
	wantConfined(t, p, c.try(t, append(run, "--tmpfs=/tmp:mode=1777", victimImage, expect.Program, "init")...), false)
}

// podDefault only looks whether a pod's container comes up and can be entered:
// in a network namespace that is shared there are fewer sockets than the table
// has.
func podDefault(t *testing.T, handler string) {
	c := newCRI(t)
	p := startOwnPod(t, c, handler)
	c.try(t, "exec", "--sync", p.container, "sh", "-c", "grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status").want(t, 0, "Seccomp:\t2", "NoNewPrivs:\t1")
	c.must(t, "stop", "--timeout=20", p.container)
	c.must(t, "rm", p.container)
	c.must(t, "stopp", p.sandbox)
	c.must(t, "rmp", p.sandbox)
}

// startOwnPod is a pod whose containers do not see each other's processes, as a
// kubelet asks for by default; crictl's default is that they do.
func startOwnPod(t *testing.T, c client, handler string) pod {
	t.Helper()
	security := map[string]any{"namespace_options": map[string]any{"pid": 1}}
	sandbox := criFile(t, "policy-pod-"+handler, map[string]any{
		"metadata":      map[string]any{"name": "pod-" + handler, "namespace": "ring", "uid": newID()},
		"hostname":      "pod-" + handler,
		"log_directory": theRing.path("pod-logs", handler),
		"linux":         map[string]any{"cgroup_parent": "/" + theRing.name, "security_context": security},
	})
	container := criFile(t, "policy-container-"+handler, map[string]any{
		"metadata": map[string]any{"name": "main"},
		"image":    map[string]any{"image": busybox},
		"log_path": "main.log",
		"command":  []string{"sh", "-c", "trap 'exit 9' TERM; while :; do sleep 0.1; done"},
		"linux":    map[string]any{"security_context": security},
	})
	var p pod
	p.sandbox = c.must(t, "runp", "--runtime", handler, sandbox)
	t.Cleanup(func() { c.quietly("rmp", "--force", p.sandbox) })
	p.container = c.must(t, "create", "--no-pull", p.sandbox, container, sandbox)
	c.must(t, "start", p.container)
	return p
}
