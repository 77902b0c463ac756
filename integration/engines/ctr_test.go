//go:build engines

package engines

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// ctr is containerd's own client with one way of naming sage.
type ctr struct {
	client
	way []string
}

// ctrWays are the runc shim with our binary, and our shim.
var ctrWays = []struct {
	name string
	way  func() []string
}{
	{"runc shim", func() []string { return []string{"--runc-binary", theRing.runtimeBinary()} }},
	{"sage shim", func() []string { return []string{"--runtime", "io.containerd.sage.v2"} }},
}

var ctrCases = []struct {
	name string
	run  func(*testing.T, ctr)
}{
	{"exit codes", ctrExitCodes},
	{"stdin", ctrStdin},
	{"terminal", ctrTerminal},
	{"exec", ctrExec},
	{"exec on a terminal", ctrExecTerminal},
	{"init dies during exec", ctrInitDiesDuringExec},
	{"logs", ctrLogs},
	{"attach", ctrAttach},
	{"ps and list", ctrPs},
	{"pause", ctrPause},
	{"metrics", ctrMetrics},
	{"kill and delete", ctrKill},
	{"kill all", ctrKillAll},
	{"events", ctrEvents},
	{"out of memory", ctrOutOfMemory},
	{"second task", ctrSecondTask},
	{"user namespace", ctrUserNamespace},
	{"root folder", ctrRootFolder},
}

func TestContainerd(t *testing.T) {
	for _, w := range ctrWays {
		t.Run(w.name, func(t *testing.T) {
			c := newCtr(t, w.way())
			t.Run("cases", func(t *testing.T) { ctrAll(t, c) })
			t.Run("fifty at once", func(t *testing.T) { ctrFifty(t, c) })
		})
	}
}

func newCtr(t *testing.T, way []string) ctr {
	t.Helper()
	needContainerd(t)
	return ctr{client{"ctr", []string{"--address", theRing.containerdSocket(), "--namespace", theRing.name}}, way}
}

func ctrAll(t *testing.T, c ctr) {
	for _, k := range ctrCases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.run(t, c)
		})
	}
}

var lastContainer atomic.Int64

// newID names a container; containerd leaves that to its client.
// Of fixed length, so that no name is part of another.
func newID() string { return fmt.Sprintf("ring-%04d", lastContainer.Add(1)) }

// runArgs are the arguments of "ctr run", flags before the image.
func (c ctr) runArgs(flags []string, id string, args ...string) []string {
	all := append([]string{"run"}, c.way...)
	all = append(all, flags...)
	return append(append(all, busybox, id), args...)
}

// run is a container in the foreground that is removed after its end.
func (c ctr) run(t *testing.T, args ...string) result {
	t.Helper()
	return c.try(t, c.runArgs([]string{"--rm"}, newID(), args...)...)
}

// detached starts a container in the background and removes it with the test.
func (c ctr) detached(t *testing.T, flags []string, args ...string) string {
	t.Helper()
	id := newID()
	t.Cleanup(func() {
		c.quietly("tasks", "delete", "--force", id)
		c.quietly("containers", "delete", id)
	})
	c.must(t, c.runArgs(append([]string{"--detach"}, flags...), id, args...)...)
	return id
}

func (c ctr) idle(t *testing.T) string {
	t.Helper()
	return c.detached(t, nil, "sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done")
}

// exec enters a container; ctr wants a name for every exec.
func (c ctr) exec(t *testing.T, flags []string, id string, args ...string) result {
	t.Helper()
	return c.try(t, c.execArgs(flags, id, args...)...)
}

func (c ctr) execArgs(flags []string, id string, args ...string) []string {
	all := append([]string{"tasks", "exec", "--exec-id", newID()}, flags...)
	return append(append(all, id), args...)
}

// status is the state of a task in ctr's list, or "none".
func (c ctr) status(t *testing.T, id string) string {
	t.Helper()
	for line := range strings.Lines(c.must(t, "tasks", "list")) {
		if f := strings.Fields(line); f[0] == id {
			return f[2]
		}
	}
	return "none"
}

func (c ctr) awaitStatus(t *testing.T, id, want string) {
	t.Helper()
	eventually(t, "task "+id, want, func() string { return c.status(t, id) })
}
