//go:build kernel

package egress

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/sage-sandbox/sage/integration/harness"
)

const (
	outside = "10.98.7.1" // of a server beside a container with a network
	inside  = "10.98.7.2" // of the container
)

// attach does what an engine does between create and start: it puts one end of a
// pair of links into the container's namespace.
func attach(t *testing.T, s *harness.Space, r *harness.Runtime, id string) {
	t.Helper()
	pid := pidOf(t, r, id)
	var failed error
	s.Do(func() {
		peer, err := netlink.LinkByName("peer")
		if err == nil {
			err = netlink.LinkSetNsPid(peer, pid)
		}
		failed = err
	})
	if failed != nil {
		t.Fatal(failed)
	}
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	done := make(chan struct{})
	harness.OnThread(func() {
		defer close(done)
		if err := netns.Set(ns); err != nil {
			t.Error(err)
			return
		}
		harness.LinkUp(t, "peer", inside+"/24")
	})
	<-done
}

func pidOf(t *testing.T, r *harness.Runtime, id string) int {
	t.Helper()
	var s struct{ Pid int }
	if err := json.Unmarshal([]byte(r.Must(t, "state", id).Stdout), &s); err != nil || s.Pid == 0 {
		t.Fatalf("state: %v", err)
	}
	return s.Pid
}

// beside is a world at the other end of a pair of links.
func beside(t *testing.T) (*world, *harness.Space) {
	t.Helper()
	s := harness.NewSpace(t)
	var w *world
	s.Do(func() {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "server"}, PeerName: "peer"}); err != nil {
			t.Error(err)
			return
		}
		harness.LinkUp(t, "server", outside+"/24")
		w = newWorld(t, outside)
	})
	if t.Failed() {
		t.FailNow()
	}
	return w, s
}

// A network that an engine attaches after create carries what the proxy dials,
// and nothing of the container's own.
//
// Proves: S-079.
func TestAttached(t *testing.T) {
	w, s := beside(t)
	r, id := w.runtime(t), harness.NewID()
	allowed, denied := w.url("https", "allowed.test"), w.url("https", "denied.test")
	direct := []string{fmt.Sprintf("tcp %s:%d", outside, w.HTTPS), fmt.Sprintf("udp %s:53", outside), fmt.Sprintf("tcp %s:22", inside)}
	create := r.Start(t, "create", "--bundle", w.bundle(t, nil, append(direct, "get "+allowed, "get "+denied, "direct "+allowed)...), id)
	create.Wait(t)
	attach(t, s, r, id)
	r.Must(t, "start", id)
	harness.Eventually(t, "the container is done", func() bool { return strings.Contains(create.Stdout(t), "direct "+allowed) })
	want(t, create.Stdout(t), map[string]string{
		direct[0]: unreachable, direct[1]: unreachable, direct[2]: unreachable,
		"get " + allowed: ok, "get " + denied: "403", "direct " + allowed: ok,
	})
	if got := servingOf(t, r, id); got.DialsFrom != "engine" {
		t.Errorf("got %+v, want it to dial from the container's namespace", got)
	}
}

// Where the proxy dials from the host, and where there is none, the links that
// an engine attached are down.
func TestAttachedForNothing(t *testing.T) {
	for name, edit := range map[string]func(*specs.Spec){"none": annotate("network.mode", "none"), "host": annotate("network.dial", "host")} {
		t.Run(name, func(t *testing.T) {
			w, s := beside(t)
			r, id := w.runtime(t), harness.NewID()
			direct := fmt.Sprintf("tcp %s:%d", outside, w.HTTPS)
			create := r.Start(t, "create", "--bundle", w.bundle(t, edit, direct, "sleep 60s"), id)
			create.Wait(t)
			attach(t, s, r, id)
			r.Must(t, "start", id)
			harness.Eventually(t, "the container has tried", func() bool { return strings.Contains(create.Stdout(t), direct) })
			want(t, create.Stdout(t), map[string]string{direct: unreachable})
			ns, err := netns.GetFromPid(pidOf(t, r, id))
			if err != nil {
				t.Fatal(err)
			}
			defer ns.Close()
			h, err := netlink.NewHandleAt(ns)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			link, err := h.LinkByName("peer")
			if err != nil || link.Attrs().Flags&net.FlagUp != 0 {
				t.Errorf("link: saw %+v, %v; want it down", link, err)
			}
		})
	}
}

// Containers of one network namespace, as of a pod, have a proxy and a port
// each, and cannot use each other's; nor can who is in it without one.
//
// Proves: S-075.
func TestShared(t *testing.T) {
	s := harness.NewSpace(t)
	var w *world
	s.Do(func() { w = newWorld(t, "127.0.0.1") })
	r := w.runtime(t)
	join := func(c *specs.Spec) {
		for i := range c.Linux.Namespaces {
			if c.Linux.Namespaces[i].Type == specs.NetworkNamespace {
				c.Linux.Namespaces[i].Path = s.Path
			}
		}
	}
	allowed := w.url("https", "allowed.test")
	first := harness.NewID()
	r.Must(t, "create", "--bundle", w.bundle(t, join, "sleep 60s"), first)
	r.Must(t, "start", first)
	res := r.Run(t, "run", "--bundle", w.bundle(t, join,
		"get "+allowed, "get "+w.url("https", "denied.test"), "env HTTPS_PROXY", "env no_proxy", "tcp 127.0.0.1:3128", fmt.Sprintf("tcp 127.0.0.1:%d", w.HTTPS), "tcp 192.0.2.1:80", "tcp 198.18.0.1:53",
	), harness.NewID())
	want(t, res.Stdout, map[string]string{
		"get " + allowed: ok, "get " + w.url("https", "denied.test"): "403", "env HTTPS_PROXY": "http://127.0.0.1:3129", "env no_proxy": "",
		"tcp 127.0.0.1:3128": unreachable, fmt.Sprintf("tcp 127.0.0.1:%d", w.HTTPS): unreachable, "tcp 192.0.2.1:80": unreachable, "tcp 198.18.0.1:53": unreachable,
	})
	s.Do(func() {
		conn, err := net.DialTimeout("tcp", "127.0.0.1:3128", time.Second)
		if err != nil {
			t.Errorf("the first container's port: %v", err)
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		fmt.Fprint(conn, "GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
		if answer, err := io.ReadAll(conn); len(answer) > 0 {
			t.Errorf("somebody else was answered %q, %v", answer, err)
		}
	})
}
