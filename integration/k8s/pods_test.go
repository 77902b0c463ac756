//go:build k8s

package k8s

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hardLimits are the files of the cgroup of a container with [limits] of
// 64Mi and 500m; the number of processes is the profile's.
var hardLimits = map[string]string{
	"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "cpu.max": "50000 100000", "pids.max": "64",
}

// TestPods has pods that run, each with something of its own to show. They run
// beside each other, since most of their time they wait.
func TestPods(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"limits": podLimits, "disk": podDisk, "memory": podMemory, "two": podTwo, "volumes": podVolumes, "runc": podRunc, "web": podWeb,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// What a pod asks for is what the kernel enforces, for an exec as well, and its
// pause container is under the policy too.
//
// Proves: S-003, S-131, G-27.
func podLimits(t *testing.T) {
	p := start(t, manifest("limits", "echo hello from a pod; exec sleep 1000", guaranteed))
	if got := p.logs("main"); got != "hello from a pod\n" {
		t.Errorf("kubectl logs: got %q", got)
	}
	c := p.sandboxed("main")
	c.group(hardLimits)
	if got := c.proc("oom_score_adj"); got != "0" {
		t.Errorf("oom_score_adj: got %s, want 0", got)
	}
	saw := c.attested()
	for _, file := range []string{"memory.max", "memory.swap.max", "memory.oom.group", "cpu.max", "pids.max"} {
		if saw[file] != hardLimits[file] {
			t.Errorf("attest: %s: got %q, want %s", file, saw[file], hardLimits[file])
		}
	}
	// Above its own cgroup a container sees none: an exec elsewhere would show it.
	if got := p.exec("main", "cat /proc/self/cgroup"); got != "0::/" {
		t.Errorf("kubectl exec: got cgroup %q, want the container's own", got)
	}
	hardenedPause(t, p)
}

// hardenedPause: a container of which nothing but its namespaces is wanted has
// no limits that a pod could fail for, and is closed like any other.
func hardenedPause(t *testing.T, p pod) {
	t.Helper()
	c := p.pause()
	if saw, there := c.attested()["disk"]; there {
		t.Errorf("pause container: attest: disk: got %q, want none", saw)
	}
	status := c.proc("status")
	for _, line := range []string{"NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "Seccomp:\t2"} {
		if !strings.Contains(status, line) {
			t.Errorf("pause container: got no line %q in its status", line)
		}
	}
	if got := c.proc("oom_score_adj"); got != "0" {
		t.Errorf("pause container: oom_score_adj: got %s, want 0", got)
	}
	if got := c.project(); got != "0" {
		t.Errorf("pause container: its root is in project %s, want no disk quota", got)
	}
	for line := range strings.Lines(c.proc("mountinfo")) {
		if f := strings.Fields(line); f[4] == "/" && !strings.HasPrefix(f[5], "ro") {
			t.Errorf("pause container: its root is mounted %s, want read-only", f[5])
		}
	}
}

// The disk limit comes by annotation: the OCI spec has no field for what a
// pod calls ephemeral storage.
//
// Proves: S-143.
func podDisk(t *testing.T) {
	const mib = 8
	p := start(t, manifest("disk", "exec sleep 1000", annotated("resources.disk_mb", strconv.Itoa(mib))))
	c := p.sandboxed("main")
	id := c.project()
	if id == "0" {
		t.Error("its root is in no project, want one of its own")
	}
	if saw := c.attested()["disk"]; !strings.HasPrefix(saw, strconv.Itoa(mib<<20)+" bytes") {
		t.Errorf("attest: disk: got %q, want %d bytes", saw, mib<<20)
	}
	// Both places count together.
	got := p.exec("main", "dd if=/dev/zero of=/big bs=64k count=100 2>/dev/null; said=$(dd if=/dev/zero of=/tmp/big bs=64k 2>&1); echo $said; stat -c %s /big /tmp/big; rm /big")
	var first, second int
	lines := strings.Split(got, "\n")
	if _, err := fmt.Sscan(strings.Join(lines[max(0, len(lines)-2):], " "), &first, &second); err != nil {
		t.Fatalf("got %q, want two sizes: %v", got, err)
	}
	if sum := first + second; sum > mib<<20 || sum < mib<<20-128<<10 {
		t.Errorf("wrote %d bytes in all, want %d MiB less 128 KiB at most; dd said %q", sum, mib, got)
	}
	if !strings.Contains(got, "No space left") {
		t.Errorf("dd said %q, want no space left", got)
	}
	// What [TestNothingIsLeft] looks at is what counts.
	if used, err := projects(); err != nil || !slices.Contains(used, "#"+id) {
		t.Errorf("projects with anything on the disk: got %v, %v, want #%s among them", used, err, id)
	}
}

// A container that is too large dies, with all its processes, and Kubernetes
// knows why.
func podMemory(t *testing.T) {
	// In a pod of another class it would be slowed down first, by memory.high.
	p := create(t, manifest("memory", "sleep 1000 & x=x; while :; do x=$x$x; done", guaranteed))
	s := p.await("to be killed", func(s status) bool { return s.Status.Phase == "Failed" })
	if end := s.Status.ContainerStatuses[0].State.Terminated; end == nil || end.Reason != "OOMKilled" || end.ExitCode != 137 {
		t.Errorf("got %+v, want OOMKilled with 137", end)
	}
}

// Two containers share what a pod shares, and no limit.
func podTwo(t *testing.T) {
	p := start(t, manifest("two", "echo one >/dev/shm/note; exec sleep 1000", func(_, spec object) {
		second := container("second", "exec sleep 1000")
		second["resources"] = limits("32Mi", "250m")
		second["readinessProbe"] = object{
			"exec":          object{"command": []string{"sh", "-c", "grep -q one /dev/shm/note"}},
			"periodSeconds": 2, "timeoutSeconds": 20,
		}
		spec["containers"] = append(spec["containers"].([]object), second)
	}))
	one, two := p.sandboxed("main"), p.sandboxed("second")
	for _, kind := range []string{"net", "ipc", "uts"} {
		if one.namespace(kind) != two.namespace(kind) {
			t.Errorf("namespace %s: got one each, want the pod's", kind)
		}
	}
	for _, kind := range []string{"pid", "mnt", "cgroup"} {
		if one.namespace(kind) == two.namespace(kind) {
			t.Errorf("namespace %s: got a common one, want one each", kind)
		}
	}
	one.group(hardLimits)
	two.group(map[string]string{"memory.max": "33554432", "memory.swap.max": "0", "cpu.max": "25000 100000"})
	one.attested()
	two.attested()
	if a, b := one.project(), two.project(); a == b {
		t.Errorf("both count to project %s, want one each", a)
	}
}

// What Kubernetes gives a container to read can be read. Nothing of the host's is
// there to be written, an emptyDir neither, unless the host's file lists it.
func podVolumes(t *testing.T) {
	p := start(t, manifest("volumes", "exec sleep 1000", func(_, spec object) {
		spec["volumes"] = []object{
			{"name": "info", "downwardAPI": object{"items": []object{{"path": "name", "fieldRef": object{"fieldPath": "metadata.name"}}}}},
			{"name": "empty", "emptyDir": object{}},
		}
		first(spec)["volumeMounts"] = []object{{"name": "info", "mountPath": "/info"}, {"name": "empty", "mountPath": "/empty"}}
	}))
	if got := p.exec("main", "cat /info/name"); got != "volumes" {
		t.Errorf("downward API: got %q, want volumes", got)
	}
	got := p.exec("main", "for f in /empty/f /etc/hosts /etc/resolv.conf /etc/hostname /dev/termination-log; do echo >$f && echo $f; done 2>/dev/null; true")
	if got != "" {
		t.Errorf("could be written: %q, want nothing", got)
	}
}

// A pod that does not ask for sage is runc's, beside those that do.
func podRunc(t *testing.T) {
	p := start(t, manifest("runc", "echo by runc; exec sleep 1000", func(meta, spec object) {
		delete(spec, "runtimeClassName")
		delete(meta, "annotations")
	}))
	if got := p.logs("main"); got != "by runc\n" {
		t.Errorf("kubectl logs: got %q", got)
	}
	if got := p.exec("main", "grep NoNewPrivs /proc/self/status"); got != "NoNewPrivs:\t0" {
		t.Errorf("got %q, want a container that sage has nothing to do with", got)
	}
}

// A profile of the host's gives a pod its network: kubelet's probe comes in, and
// the container gets out. One without, in the same cluster, does not.
//
// Proves: S-061.
func podWeb(t *testing.T) {
	p := start(t, manifest("web", "echo pods >/tmp/index.html; exec httpd -f -p 8080 -h /tmp", annotated("profile", "web"), func(_, spec object) {
		first(spec)["readinessProbe"] = object{"httpGet": object{"port": 8080, "path": "/index.html"}, "periodSeconds": 2, "timeoutSeconds": 20}
	}))
	address := p.status().Status.PodIP
	if got, err := fetch("http://" + address + ":8080/index.html"); err != nil || got != "pods\n" {
		t.Errorf("from the node: got %q, %v", got, err)
	}
	// Debian's BusyBox dies of wget's own -T.
	get := "timeout 10 wget -q -O - http://" + address + ":8080/index.html || echo no way"
	if got := p.exec("main", get); got != "pods" {
		t.Errorf("from the pod itself: got %q, want pods", got)
	}
	none := start(t, manifest("none", "exec sleep 1000"))
	if got := none.exec("main", get); !strings.HasSuffix(got, "no way") {
		t.Errorf("from a pod without network: got %q, want nothing", got)
	}
}

func fetch(url string) (string, error) {
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}
