//go:build k8s

package k8s

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sage-sandbox/sage/integration/harness"
)

// outside brings up, on the node, a resolver by which every name leads to an
// address of this machine, and servers there; and gives containerd an image that
// has curl, which believes them.
func outside(t *testing.T) *harness.World {
	t.Helper()
	if err := shell("ip address add " + outsideIP + "/32 dev lo"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shell("ip address del " + outsideIP + "/32 dev lo"); err != nil {
			t.Error(err)
		}
	})
	w := harness.NewWorld(t, harness.WorldOptions{IP: outsideIP, Resolver: outsideIP + ":53", HTTPS: 443, HTTP: 80})
	rootfs, err := os.ReadFile(filepath.Join(theNode.cache, "rootfs", "busybox.tar"))
	if err != nil {
		t.Fatal(err)
	}
	// The other images are there from before the first look at the node.
	t.Cleanup(func() {
		remove := theNode.command(context.Background(), "ctr", "--namespace", "k8s.io", "images", "remove", "--sync", harness.CurlImage)
		if out, err := remove.CombinedOutput(); err != nil {
			t.Errorf("remove the image: %v: %s", err, out)
		}
	})
	tree, err := harness.CurlTree(rootfs, harness.WorldCA(t))
	if err == nil {
		err = theNode.importImage(harness.CurlImage, tree, "sh")
	}
	if err != nil || t.Failed() {
		t.Fatalf("what is outside: %v", err)
	}
	return w
}

// A pod reaches the host that its annotations name, by a proxy that dials from
// the pod's network; and not the API server or another pod, which a pod that is
// left its network does reach.
//
// Proves: S-060, S-079.
func TestEgress(t *testing.T) {
	w := outside(t)
	t.Run("pod", egressPod)
	t.Run("README", egressReadme)
	for _, name := range []string{"denied.test", "example.com", outsideIP} {
		if w.Asked(name) || w.Served(name) {
			t.Errorf("%s: it was asked for outside, though it is denied", name)
		}
	}
}

func egressPod(t *testing.T) {
	curl := func(_, spec object) { first(spec)["image"] = harness.CurlImage }
	web := start(t, manifest("reachable", "echo hello >/tmp/index.html; exec httpd -f -p 8080 -h /tmp", annotated("profile", "web"), curl))
	p := start(t, manifest("egress", "exec sleep 1000",
		annotated("network.mode", "allowlist"), annotated("network.allowed_hosts", "allowed.test"), curl))
	server, pod := "https://"+nodeAddress+":6443/version", "http://"+web.status().Status.PodIP+":8080/"
	harness.TryEach(t, web.try, []harness.Tried{
		{"curl -sSk -H 'Authorization: Bearer " + token + "' " + server, "gitVersion"},
		{"curl -sS " + pod, harness.Answered},
	})
	harness.TryEach(t, p.try, []harness.Tried{
		{"curl -sS https://allowed.test/", harness.Answered},
		{"curl -sS http://allowed.test/", harness.Answered},
		{"curl -sSi https://denied.test/", harness.DeniedHost},
		{"curl -sSik " + server, harness.DeniedHost},
		{"curl -sSi " + pod, harness.DeniedHost},
		{"curl -sSk --noproxy '*' " + server, harness.NoConnect},
		{"curl -sS --noproxy '*' " + pod, harness.NoConnect},
		{"curl -sS --noproxy '*' http://" + outsideIP + "/", harness.NoConnect},
		{"curl -sS --noproxy '*' https://allowed.test/", harness.NoName},
	})
	saw := p.sandboxed("main").attested()
	for _, field := range []string{"network guard", "network bridge", "network proxy"} {
		if _, there := saw[field]; !there {
			t.Errorf("attest: saw no line of %s", field)
		}
	}
	audited(t, p, `"action":"allow"`, `"host":"allowed.test"`, `"dials":"engine"`)
}

// try is for [harness.TryEach].
func (p pod) try(script string) string {
	p.t.Helper()
	return p.exec("main", script)
}

// audited waits for a line about a connection of the pod's that holds all
// phrases: it comes when the connection has ended for the proxy, too.
func audited(t *testing.T, p pod, phrases ...string) {
	t.Helper()
	path := filepath.Join(auditDir, p.id("main")+".egress.jsonl")
	eventually(t, fmt.Sprintf("a line with %q in the audit", phrases), func() (string, bool) {
		text := read(t, path)
		return text, slices.ContainsFunc(strings.Split(text, "\n"), holds(phrases))
	})
}

// The README's pod does what is said there. Only what makes up for the missing
// scheduler and registry is added.
func egressReadme(t *testing.T) {
	var m object
	if err := yaml.Unmarshal([]byte(harness.ReadmeBlock(t, "yaml", "kind: Pod", "allowed_hosts")), &m); err != nil {
		t.Fatal(err)
	}
	spec := m["spec"].(object)
	spec["nodeName"], spec["automountServiceAccountToken"], spec["dnsPolicy"] = nodeName, false, "Default"
	container := spec["containers"].([]any)[0].(object)
	container["imagePullPolicy"] = "Never"
	p := create(t, m)
	p.await("to have succeeded", func(s status) bool { return s.Status.Phase == "Succeeded" })
	if got := p.logs(container["name"].(string)); !strings.Contains(got, harness.Answered) {
		t.Errorf("kubectl logs: got %q, want %s", got, harness.Answered)
	}
}
