//go:build kernel

package policy

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// execs is how many programs are started under each kind of attack, by rounds,
// since a command may not take longer than harness.Timeout.
const (
	execs  = 500
	rounds = 20
)

// hijacker is one who waits for programs that others start in the container.
type hijacker struct {
	name string
	host string
	user specs.User
	// trace adds ptrace to the attack, shared puts the programs into another
	// container, in the pid namespace of the attacker's.
	trace, shared bool
}

// TestAttack02: nobody in a container gets at a program that is being started
// there before its filters are in place: not by its memory, not by a debugger,
// and not at the files that the runtime has open.
//
// Proves: S-046, S-110.
func TestAttack02(t *testing.T) {
	for _, h := range []hijacker{
		{"user", harness.SoftAgent, specs.User{UID: 1001, GID: 1001}, true, false},
		{"root", harness.SoftAgent, specs.User{}, true, false},
		{"root with DAC_OVERRIDE", harness.SoftService, specs.User{}, false, false},
		{"shared pid namespace", harness.SoftAgent + "shared_namespaces: [pid]\n", specs.User{}, true, true},
	} {
		t.Run(h.name, h.attack)
	}
}

// catch is what the attacker got at.
type catch struct{ seen, payload, runtime, exe, fd, trace int }

func (c *catch) fields() []any {
	return []any{&c.seen, &c.payload, &c.runtime, &c.exe, &c.fd, &c.trace}
}

func (c *catch) add(o catch) {
	for i, n := range c.fields() {
		*n.(*int) += *o.fields()[i].(*int)
	}
}

func (h hijacker) attack(t *testing.T) {
	r := harness.NewRuntimeWith(t, h.host)
	root := harness.PrivateRoot(t)
	_, err := harness.Output(exec.Command("cp", harness.HostProbe(t, "hijack"), filepath.Join(root, "hijack")))
	check(t, err)
	var all catch
	for range rounds {
		all.add(h.round(t, r, root))
	}
	h.judge(t, all)
}

func (h hijacker) round(t *testing.T, r *harness.Runtime, root string) catch {
	t.Helper()
	id, stop, running := h.hunter(t, r, root)
	target := id
	if h.shared {
		target = h.neighbour(t, r, root, id)
	}
	for range execs / rounds {
		r.Must(t, "exec", "--user", fmt.Sprintf("%d:%d", h.user.UID, h.user.GID), target, "/hijack", "payload")
	}
	if h.shared {
		r.Must(t, "delete", "--force", target)
	}
	check(t, stop.Close())
	res := running.Wait(t)
	var got catch
	if _, err := fmt.Sscanf(res.Stdout, "ready\nseen %d payload %d runtime %d exe %d fd %d trace %d", got.fields()...); err != nil {
		t.Fatalf("%v: %s", err, res)
	}
	return got
}

// hunter starts the attacker as the container's first program, which hunts until
// the pipe is closed.
func (h hijacker) hunter(t *testing.T, r *harness.Runtime, root string) (id string, stop io.Closer, running *harness.Running) {
	t.Helper()
	id = harness.NewID()
	b := h.bundle(t, root, "/hijack", map[bool]string{true: "trace", false: "watch"}[h.trace])
	var in io.WriteCloser
	running = r.StartWith(t, func(cmd *exec.Cmd) {
		var err error
		in, err = cmd.StdinPipe()
		check(t, err)
	}, "run", "--bundle", b.Dir, id)
	harness.Eventually(t, "the attacker is ready", func() bool { return strings.Contains(running.Stdout(t), "ready") })
	return id, in, running
}

func (h hijacker) bundle(t *testing.T, root string, args ...string) *harness.Bundle {
	t.Helper()
	return harness.NewBundle(t, func(s *specs.Spec) {
		s.Root.Path, s.Root.Readonly = root, false
		s.Process.User, s.Process.Args = h.user, args
		all := allCapabilities
		s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: all, Effective: all, Permitted: all}
	})
}

// neighbour is a second container that sees the first one's processes and is
// seen by them.
func (h hijacker) neighbour(t *testing.T, r *harness.Runtime, root, id string) string {
	t.Helper()
	b := h.bundle(t, root, "/hijack", "wait")
	for i, n := range b.Spec.Linux.Namespaces {
		if n.Type == specs.PIDNamespace {
			b.Spec.Linux.Namespaces[i].Path = fmt.Sprintf("/proc/%d/ns/pid", pidOf(t, r, id))
		}
	}
	b.Write(t)
	other := harness.NewID()
	r.Must(t, "run", "--detach", "--bundle", b.Dir, other)
	return other
}

// judge: that the attacker got at programs after they had begun, where it gains
// nothing, shows that it was fast enough to be a danger.
func (h hijacker) judge(t *testing.T, got catch) {
	t.Helper()
	t.Logf("%d programs started: %+v", execs, got)
	if got.runtime+got.exe+got.fd+got.trace > 0 {
		t.Errorf("got %+v, want nothing of the runtime's", got)
	}
	if got.payload < execs/2 {
		t.Errorf("got at %d of %d programs after they had begun, want most: the attack is too slow to prove anything", got.payload, execs)
	}
}
