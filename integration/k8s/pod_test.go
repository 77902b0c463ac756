//go:build k8s

package k8s

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// object is a part of a manifest as Kubernetes has it.
type object = map[string]any

// pod is one that is on the node.
type pod struct {
	t    *testing.T
	name string
}

// status is what the API server says of a pod, as far as it matters here.
type status struct {
	Metadata struct{ UID string }
	Status   struct {
		Phase, PodIP      string
		ContainerStatuses []containerStatus
	}
}

type containerStatus struct {
	Name, ContainerID string
	Ready             bool
	State             struct {
		Terminated *struct {
			Reason   string
			ExitCode int
		}
	}
}

// manifest is a pod of class sage with one container, main, that runs script
// with hard limits of its own; edits change what differs.
func manifest(name, script string, edits ...func(meta, spec object)) object {
	meta := object{"name": name, "annotations": object{"sage.sandbox.profile": "agent"}}
	spec := object{
		"runtimeClassName": "sage",
		// There is no scheduler, which is not what is tested.
		"nodeName":                      nodeName,
		"automountServiceAccountToken":  false,
		"enableServiceLinks":            false,
		"terminationGracePeriodSeconds": 1,
		"restartPolicy":                 "Never",
		"dnsPolicy":                     "Default",
		"containers":                    []object{container("main", script)},
	}
	for _, edit := range edits {
		edit(meta, spec)
	}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
}

func container(name, script string) object {
	return object{
		"name": name, "image": busybox, "imagePullPolicy": "Never", "command": []string{"sh", "-c", script},
		"resources": limits("64Mi", "500m"),
	}
}

// limits asks the scheduler for little, since all pods have one small node.
func limits(memory, cpu string) object {
	return object{"limits": object{"memory": memory, "cpu": cpu}, "requests": object{"memory": "16Mi", "cpu": "20m"}}
}

// guaranteed is a pod of that class: kubelet wishes for the lowest OOM score
// for it, and writes other files of its cgroup.
func guaranteed(_, spec object) { delete(first(spec)["resources"].(object), "requests") }

// first is the container main.
func first(spec object) object { return spec["containers"].([]object)[0] }

// annotated sets an annotation, without the prefix of sage's own.
func annotated(key, value string) func(meta, spec object) {
	return func(meta, _ object) { meta["annotations"].(object)["sage.sandbox."+key] = value }
}

// create makes a pod; it is gone when the test ends.
func create(t *testing.T, m object) pod {
	t.Helper()
	p := pod{t, m["metadata"].(object)["name"].(string)}
	if err := theNode.api.post(pods, m); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("events of pod %s:\n%s", p.name, strings.Join(p.messages(), "\n"))
		}
		p.delete()
	})
	return p
}

// start makes a pod and waits until it is ready.
func start(t *testing.T, m object) pod {
	t.Helper()
	p := create(t, m)
	p.await("Running and ready", func(s status) bool {
		for _, message := range p.messages() {
			if strings.Contains(message, "OCI runtime") {
				t.Fatalf("pod %s: %s", p.name, message) // kubelet would try for ever
			}
		}
		for _, c := range s.Status.ContainerStatuses {
			if !c.Ready {
				return false
			}
		}
		return s.Status.Phase == "Running"
	})
	return p
}

const pods = "/api/v1/namespaces/default/pods"

func (p pod) path() string { return pods + "/" + p.name }

func (p pod) status() status {
	p.t.Helper()
	var s status
	if err := theNode.api.get(p.path(), &s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p pod) await(want string, ok func(status) bool) status {
	p.t.Helper()
	var s status
	eventually(p.t, p.name+" "+want, func() (string, bool) {
		s = p.status()
		return fmt.Sprintf("%+v", s.Status), ok(s)
	})
	return s
}

// id is the one that containerd and sage know a container by.
func (p pod) id(container string) string {
	p.t.Helper()
	for _, c := range p.status().Status.ContainerStatuses {
		if c.Name == container {
			return strings.TrimPrefix(c.ContainerID, "containerd://")
		}
	}
	p.t.Fatalf("pod %s has no container %s", p.name, container)
	return ""
}

func (p pod) exec(container, script string) string {
	p.t.Helper()
	return strings.TrimSpace(kubectl(p.t, "exec", p.name, "--container", container, "--", "sh", "-c", script))
}

func (p pod) logs(container string) string {
	p.t.Helper()
	return kubectl(p.t, "logs", p.name, "--container", container)
}

// messages are those of its events.
func (p pod) messages() (all []string) {
	p.t.Helper()
	var list struct{ Items []struct{ Message string } }
	if err := theNode.api.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D"+p.name, &list); err != nil {
		p.t.Error(err)
	}
	for _, e := range list.Items {
		all = append(all, e.Message)
	}
	return all
}

// delete may be called again: a test that deletes has a pod that is gone at its
// end, too.
func (p pod) delete() {
	p.t.Helper()
	if err := theNode.api.delete(p.path()); err != nil && !errors.Is(err, errNotFound) {
		p.t.Error(err)
		return
	}
	eventually(p.t, "no pod "+p.name, func() (string, bool) {
		err := theNode.api.get(p.path(), nil)
		return fmt.Sprint(err), errors.Is(err, errNotFound)
	})
}
