//go:build kernel

package kernel

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// check is for what the test needs and does not test.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	check(t, err)
	return string(data)
}

func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	return string(data)
}

func dropNamespace(s *specs.Spec, kind specs.LinuxNamespaceType) {
	s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool {
		return n.Type == kind
	})
}

// mapUsers gives the container a user namespace whose root is root outside, so
// that the shared root file system needs no change of owner.
func mapUsers(s *specs.Spec) {
	s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
	whole := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 0, Size: 65536}}
	s.Linux.UIDMappings, s.Linux.GIDMappings = whole, whole
}

// sleeper returns a running container that does nothing.
func sleeper(t *testing.T, r *harness.Runtime) string {
	t.Helper()
	id := harness.NewID()
	r.Must(t, "run", "--detach", "--bundle", harness.NewBundle(t, harness.Args("sleep", "1000")).Dir, id)
	return id
}

// stateOf returns what "state" prints.
func stateOf(t *testing.T, r *harness.Runtime, id string) specs.State {
	t.Helper()
	var state specs.State
	check(t, json.Unmarshal([]byte(r.Must(t, "state", id).Stdout), &state))
	return state
}

func waitStatus(t *testing.T, r *harness.Runtime, id string, want specs.ContainerState) {
	t.Helper()
	harness.Eventually(t, id+" is "+string(want), func() bool {
		return stateOf(t, r, id).Status == want
	})
}

// asUser drops to a user without a name, a home and any right.
func asUser(id uint32) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	}
}

// throughShell lets a script run first in the process that becomes the runtime.
func throughShell(script string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"sh", "-c", script + ` exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}
}
