//go:build k8s

package k8s

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	// stateRoot is where the shim has sage keep the containers of Kubernetes.
	stateRoot = "/run/containerd/sage/k8s.io"
	bundles   = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
	cgroups   = "/sys/fs/cgroup"
)

// sandboxed is a container as sage and the kernel show it.
type sandboxed struct {
	t   *testing.T
	id  string
	pid int
	dir string // its cgroup
}

// sandboxed finds one of the pod's containers.
func (p pod) sandboxed(container string) sandboxed {
	p.t.Helper()
	return find(p.t, p.id(container))
}

// pause finds the container that holds the pod's namespaces, which Kubernetes
// does not show.
func (p pod) pause() sandboxed {
	p.t.Helper()
	return find(p.t, annotation(p.t, p.id("main"), "io.kubernetes.cri.sandbox-id"))
}

func find(t *testing.T, id string) sandboxed {
	t.Helper()
	var state struct{ Pid int }
	sageJSON(t, &state, "state", id)
	c := sandboxed{t: t, id: id, pid: state.Pid}
	path, ok := strings.CutPrefix(c.proc("cgroup"), "0::")
	if !ok {
		t.Fatalf("process %d is in no cgroup of v2", c.pid)
	}
	c.dir = filepath.Join(cgroups, path)
	return c
}

func annotation(t *testing.T, id, key string) string {
	t.Helper()
	var config struct{ Annotations map[string]string }
	text := read(t, filepath.Join(bundles, id, "config.json"))
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	return config.Annotations[key]
}

// sageJSON runs the installed program as an administrator of the node would.
func sageJSON(t *testing.T, into any, args ...string) {
	t.Helper()
	out, err := exec.Command("/usr/local/bin/sage-runtime", append([]string{"--root", stateRoot}, args...)...).Output()
	if err != nil {
		t.Fatalf("sage-runtime %s: %v: %s", strings.Join(args, " "), err, stderr(err))
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("sage-runtime %s: %v in %s", strings.Join(args, " "), err, out)
	}
}

// attested wants every line of attest to hold, and gives what it saw by field.
func (c sandboxed) attested() map[string]string {
	c.t.Helper()
	var a struct {
		OK    bool
		Lines []struct {
			Field, Want, Got string
			OK               bool
		}
	}
	sageJSON(c.t, &a, "attest", c.id)
	saw := map[string]string{}
	for _, l := range a.Lines {
		saw[l.Field] = l.Got
		if !l.OK {
			c.t.Errorf("attest: %s: saw %s, want %s", l.Field, l.Got, l.Want)
		}
	}
	if !a.OK || len(a.Lines) == 0 {
		c.t.Errorf("attest: saw ok %v with %d lines, want ok with some", a.OK, len(a.Lines))
	}
	return saw
}

func (c sandboxed) proc(name string) string {
	c.t.Helper()
	return read(c.t, filepath.Join("/proc", strconv.Itoa(c.pid), name))
}

// namespace is the identity of one of its namespaces.
func (c sandboxed) namespace(kind string) string {
	c.t.Helper()
	link, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(c.pid), "ns", kind))
	if err != nil {
		c.t.Fatal(err)
	}
	return link
}

// group wants the files of its cgroup to hold these values.
func (c sandboxed) group(want map[string]string) {
	c.t.Helper()
	for name, value := range want {
		if got := read(c.t, filepath.Join(c.dir, name)); got != value {
			c.t.Errorf("%s of %s: got %s, want %s", name, c.id[:12], got, value)
		}
	}
}

// project is the id of the disk quota that its root file system counts to.
func (c sandboxed) project() string {
	c.t.Helper()
	root := filepath.Join("/proc", strconv.Itoa(c.pid), "root")
	out, err := exec.Command("xfs_io", "-r", "-c", "lsproj", root).CombinedOutput()
	id, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "projid = ")
	if err != nil || !ok {
		c.t.Fatalf("xfs_io lsproj %s: %v: %s", root, err, out)
	}
	return id
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func stderr(err error) string {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}

// parent is the shim.
func (c sandboxed) parent() int {
	c.t.Helper()
	for line := range strings.Lines(c.proc("status")) {
		if text, ok := strings.CutPrefix(line, "PPid:"); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil || pid < 2 {
				c.t.Fatalf("process %d: parent %q: %v", c.pid, text, err)
			}
			return pid
		}
	}
	c.t.Fatalf("process %d has no parent", c.pid)
	return 0
}
