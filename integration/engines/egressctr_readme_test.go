//go:build engines

package engines

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sage-sandbox/sage/integration/harness"
)

// readmeHost puts the README's own file for the network where sage looks for it,
// with what this machine needs besides: it has no hard limits, and no internet.
func readmeHost(t *testing.T) {
	t.Helper()
	text := harness.ReadmeBlock(t, "yaml", "profiles:", "network: {mode: allowlist, allowed_hosts: [pypi.org,")
	soft := strings.Replace(text, "defaults: {", "defaults: {resources: {require_hard_limits: false}, ", 1)
	if soft == text {
		t.Fatalf("README.md: saw no defaults in\n%s", text)
	}
	// As the README says of Kubernetes and of nerdctl, which is elsewhere here.
	soft += "shared_namespaces: [network, ipc, uts]\nhooks: [" + theRing.find("nerdctl") + "]\n" + outsideLine
	const path = "/etc/sage/config.yaml"
	before, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(soft), 0o644)
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

// readmeCommand runs a block as it is printed; only where the engine is comes
// from around it.
func readmeCommand(t *testing.T, block string) result {
	t.Helper()
	cmd := exec.Command("sh", "-ec", block)
	cmd.Env = append(theRing.program("sh").Env,
		"CONTAINERD_ADDRESS="+theRing.containerdSocket(), "CONTAINERD_NAMESPACE="+theRing.name,
		"CNI_PATH="+theRing.cniDir(), "NETCONFPATH="+theRing.path("cni-readme"))
	cmd.Dir = theRing.dir
	r, err := finish(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantOneHost runs a block, and then again for another host.
func wantOneHost(t *testing.T, block string) {
	t.Helper()
	readmeCommand(t, block).want(t, 0, harness.Answered)
	denied := strings.Replace(block, "https://pypi.org/", "https://example.com/", 1)
	r := readmeCommand(t, denied)
	r.want(t, max(r.code, 1), "403")
}

// What the README shows works as it is printed.
func TestEgressReadme(t *testing.T) {
	w := newOutside(t)
	readmeHost(t)
	t.Run("containerd", func(t *testing.T) {
		wantOneHost(t, harness.ReadmeBlock(t, "sh", "ctr run", "allowed_hosts"))
	})
	t.Run("nerdctl", func(t *testing.T) {
		writeNetwork(t, theRing.path("cni-readme"), "bridge", "10.213.4.0/24")
		wantOneHost(t, harness.ReadmeBlock(t, "sh", "nerdctl run", "allowed_hosts"))
	})
	t.Run("Kubernetes", readmePod)
	if w.Asked("example.com") || w.Served("example.com") {
		t.Error("what is denied was asked for outside")
	}
}

// readmePod is the README's pod as a kubelet hands it to CRI; integration/k8s has
// the kubelet, but takes a virtual machine.
func readmePod(t *testing.T) {
	var manifest struct {
		Metadata struct{ Annotations map[string]string }
		Spec     struct {
			RuntimeClassName string `yaml:"runtimeClassName"`
			Containers       []struct {
				Name, Image string
				Command     []string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(harness.ReadmeBlock(t, "yaml", "kind: Pod", "allowed_hosts")), &manifest); err != nil {
		t.Fatal(err)
	}
	p := newPodWith(t, newCRI(t), manifest.Spec.RuntimeClassName, map[string]any{"annotations": manifest.Metadata.Annotations})
	for _, c := range manifest.Spec.Containers {
		id := p.startWith(c.Name, map[string]any{"image": map[string]any{"image": c.Image}, "command": c.Command})
		eventually(t, "state", "CONTAINER_EXITED 0", func() string { return p.state(id) })
		if out := p.c.must(t, "logs", id); !strings.Contains(out, harness.Answered) {
			t.Errorf("logs: got %q, want %s", out, harness.Answered)
		}
	}
	p.remove()
}
