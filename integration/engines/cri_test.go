//go:build engines

package engines

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// pod is a sandbox with one container in it.
type pod struct{ sandbox, container string }

// Each handler is one way in which CRI passes options to a shim: no options
// (runtimeoptions without content), an options table, and the runc shim's own.
func TestCRI(t *testing.T) {
	c := newCRI(t)
	for _, handler := range []string{"sage", "sage-options", "sage-binary"} {
		t.Run(handler, func(t *testing.T) { criPod(t, c, handler) })
	}
}

// newCRI is crictl, with a network for pods that is ready.
func newCRI(t *testing.T) client {
	t.Helper()
	needContainerd(t)
	writeNetwork(t, theRing.path("cni-cri"), "sage-pods", "10.213.3.0/24")
	socket := "unix://" + theRing.containerdSocket()
	c := client{"crictl", []string{"--runtime-endpoint", socket, "--image-endpoint", socket, "--timeout=60s"}}
	eventually(t, "network of CRI", "ready", func() string { return networkState(t, c) })
	return c
}

// networkState tells whether containerd has taken up the network's file.
func networkState(t *testing.T, c client) string {
	t.Helper()
	var info struct {
		Status struct {
			Conditions []struct {
				Type   string
				Status bool
			}
		}
	}
	if err := json.Unmarshal([]byte(c.must(t, "info")), &info); err != nil {
		t.Fatal(err)
	}
	for _, cond := range info.Status.Conditions {
		if cond.Type == "NetworkReady" && cond.Status {
			return "ready"
		}
	}
	return "not ready"
}

// criPod is the life of a pod as a kubelet leads it, with an exec of either
// kind: "sync" goes through the shim, the other through a streaming server.
func criPod(t *testing.T, c client, handler string) {
	p := startPod(t, c, handler)
	state := func() string {
		return c.must(t, "inspect", "--output=go-template", "--template={{.status.state}} {{.status.exitCode}}", p.container)
	}
	eventually(t, "state", "CONTAINER_RUNNING 0", state)
	r := c.try(t, "exec", "--sync", p.container, "sh", "-c", "hostname; ip -4 addr show eth0")
	r.want(t, 0, "pod-"+handler, "10.213.3.")
	c.try(t, "exec", p.container, "sh", "-c", "echo streamed; exit 5").want(t, 1, "streamed", "exit code 5")
	c.must(t, "update", "--memory=50331648", p.container)
	if got := memoryLimit.read(t, p.container); got != "50331648" {
		t.Errorf("memory limit: got %s, want 50331648", got)
	}
	if out := c.must(t, "stats", "--output=json", p.container); !strings.Contains(out, "workingSetBytes") {
		t.Errorf("stats: got %q, want a working set", out)
	}
	c.must(t, "stop", "--timeout=20", p.container)
	if got := state(); got != "CONTAINER_EXITED 9" {
		t.Errorf("after stop: got %s, want CONTAINER_EXITED 9", got)
	}
	if out := c.must(t, "logs", p.container); !strings.Contains(out, "ready") {
		t.Errorf("logs: got %q, want ready", out)
	}
	c.must(t, "rm", p.container)
	c.must(t, "stopp", p.sandbox)
	c.must(t, "rmp", p.sandbox)
	wantNothingOf(t, []string{p.sandbox, p.container})
}

func startPod(t *testing.T, c client, handler string) pod {
	t.Helper()
	sandbox := criFile(t, "pod-"+handler, podConfig(handler))
	container := criFile(t, "container-"+handler, map[string]any{
		"metadata": map[string]any{"name": "main"},
		"image":    map[string]any{"image": busybox},
		"log_path": "main.log",
		"command":  []string{"sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done"},
		"linux":    map[string]any{"resources": map[string]any{"memory_limit_in_bytes": 64 << 20}},
	})
	var p pod
	p.sandbox = c.must(t, "runp", "--runtime", handler, sandbox)
	t.Cleanup(func() { c.quietly("rmp", "--force", p.sandbox) })
	p.container = c.must(t, "create", "--no-pull", p.sandbox, container, sandbox)
	c.must(t, "start", p.container)
	return p
}

func podConfig(name string) map[string]any {
	return map[string]any{
		"metadata":      map[string]any{"name": "pod-" + name, "namespace": "ring", "uid": newID()},
		"hostname":      "pod-" + name,
		"log_directory": theRing.path("pod-logs", name),
		"linux":         map[string]any{"cgroup_parent": "/" + theRing.name},
	}
}

// criFile writes a request in the JSON form of the CRI messages.
func criFile(t *testing.T, name string, request map[string]any) string {
	t.Helper()
	text, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	path := theRing.path(name + ".json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
