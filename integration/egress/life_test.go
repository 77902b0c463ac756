//go:build kernel

package egress

import (
	"flag"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sage-sandbox/sage/integration/harness"
)

var cycles = flag.Int("egress.cycles", 20, "how many containers TestCycles makes and deletes")

// held starts a container that holds a connection to an allowed server.
func held(t *testing.T, w *world, r *harness.Runtime) (id string, s serving, run *harness.Running) {
	t.Helper()
	id = harness.NewID()
	run = r.Start(t, "run", "--bundle", w.bundle(t, nil, "hold allowed.test:"+strconv.Itoa(w.HTTPS)), id)
	harness.Eventually(t, "the container holds a connection", func() bool { return strings.Contains(run.Stdout(t), "holding") })
	return id, servingOf(t, r, id), run
}

// The end of a container is the end of all that served it, connections included.
//
// Proves: S-089.
func TestEnd(t *testing.T) {
	for name, end := range map[string][]string{"kill": {"kill", "--all", "", "KILL"}, "delete": {"delete", "--force", ""}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "127.0.0.1")
			r := w.runtime(t)
			id, s, run := held(t, w, r)
			begin := time.Now()
			args := append([]string{}, end...)
			for i, arg := range args {
				if arg == "" {
					args[i] = id
				}
			}
			r.Must(t, args...)
			harness.Eventually(t, "bridge and proxy are gone", func() bool { return !alive(s.Bridge.Pid) && !alive(s.Proxy.Pid) })
			if took := time.Since(begin); took > time.Second {
				t.Errorf("it took %v, want a second at most", took)
			}
			run.Wait(t)
		})
	}
}

// A proxy that was killed is not started again: there is no network, and an
// answer that says so. The container lives.
func TestKilledProxy(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	r, id := w.runtime(t), harness.NewID()
	r.Must(t, "create", "--bundle", w.bundle(t, nil, "sleep 60s"), id)
	allowed := w.url("https", "allowed.test")
	r.Must(t, "start", id)
	s := servingOf(t, r, id)
	kill(t, s.Proxy.Pid)
	exec := append([]string{"exec", id}, w.args("get "+allowed, "direct "+allowed, "tcp 192.0.2.1:443")...)
	want(t, r.Must(t, exec...).Stdout, map[string]string{"get " + allowed: "502 sandbox.egress_unavailable", "direct " + allowed: "error", "tcp 192.0.2.1:443": unreachable})
	if res := r.Run(t, "attest", id); res.Code == 0 || !strings.Contains(res.Stderr, "network proxy") {
		t.Errorf("attest: got %s, want it to miss the proxy", res)
	}
	kill(t, s.Bridge.Pid)
	want(t, r.Must(t, exec...).Stdout, map[string]string{"get " + allowed: "connection refused", "direct " + allowed: "error", "tcp 192.0.2.1:443": unreachable})
	r.Must(t, "delete", "--force", id)
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the process is gone", func() bool { return !alive(pid) })
}

// Create gives a container whose proxy comes with the start: until then the
// bridge answers. What is deleted before it was started leaves nothing.
func TestCreated(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	r, id := w.runtime(t), harness.NewID()
	r.Must(t, "create", "--bundle", w.bundle(t, nil, "sleep 60s"), id)
	if s := servingOf(t, r, id); s.Proxy != nil || !alive(s.Bridge.Pid) {
		t.Errorf("got %+v, want a bridge alone", s)
	}
	r.Must(t, "attest", id)
	r.Must(t, "delete", "--force", id)
}

// Every step that fails takes back what was made; delete does after kill -9.
//
// Proves: S-093.
func TestFaults(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	harness.NetworkFaults(t, w.hostText(t), w.bundle(t, nil))
}

func TestCycles(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	r := w.runtime(t)
	dir, url := w.bundle(t, nil, "get "+w.url("https", "allowed.test")), "get "+w.url("https", "allowed.test")
	before, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for range *cycles {
		want(t, r.Must(t, "run", "--bundle", dir, harness.NewID()).Stdout, map[string]string{url: ok})
	}
	after, err := os.ReadDir("/proc")
	if err != nil || len(after) > len(before)+10 {
		t.Errorf("saw %d processes before and %d after %d containers, %v", len(before), len(after), *cycles, err)
	}
	left, err := harness.Cgroups(harness.Mark())
	if err != nil || len(left) > 0 {
		t.Errorf("cgroups: saw %v, %v; want none", left, err)
	}
}
