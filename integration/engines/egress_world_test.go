//go:build engines

package engines

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/caller"
	"github.com/sage-sandbox/sage/integration/harness"
)

// The addresses outside. They look like the internet's, so that the proxy may
// dial them under the rules of any host; the namespace that has them is a test's
// own, and nothing of the capsule has a way to the real ones.
const (
	worldIP       = "11.22.33.44"    // of every name, but
	worldPrivate  = "10.99.0.44"     // of private.test
	worldResolver = "11.22.33.53:53" // answers for all of them
	worldPublic6  = "2600:77::44"
	worldPrivate6 = "fd99::44"
)

// newWorld makes everything that is not this machine: one namespace behind a
// pair of links, which takes every address there is for its own.
func newWorld(t *testing.T) *harness.World {
	t.Helper()
	needDockerd(t)
	s := harness.NewSpace(t)
	joinWorld(t, s)
	var w *harness.World
	s.Do(func() {
		w = harness.NewWorld(t, harness.WorldOptions{
			IP: worldIP, Elsewhere: map[string]string{"private.test": worldPrivate, "metadata.test": "169.254.169.254"},
			Resolver: worldResolver, Web: "::", HTTPS: 443, HTTP: 80,
		})
	})
	if t.Failed() {
		t.FailNow()
	}
	return w
}

func joinWorld(t *testing.T, s *harness.Space) {
	t.Helper()
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "world0"}, PeerName: "world1"}
	if err := netlink.LinkAdd(pair); err != nil {
		t.Fatal(err)
	}
	// The namespace goes with the thread, but only some time later.
	t.Cleanup(func() { _ = netlink.LinkDel(pair) })
	far, err := os.Open(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	peer, err := netlink.LinkByName("world1")
	if err == nil {
		err = netlink.LinkSetNsFd(peer, int(far.Fd()))
	}
	if err != nil {
		t.Fatal(err)
	}
	harness.LinkUp(t, "world0", "10.77.0.1/30", "fd77::1/64")
	s.Do(func() {
		harness.LinkUp(t, "world1", "10.77.0.2/30", "fd77::2/64", "11.22.33.53/32")
		// In the main table, where the way back to the capsule is narrower.
		route(t, "lo", unix.RTN_LOCAL, "", "0.0.0.0/0")
		route(t, "lo", unix.RTN_LOCAL, "", "::/0")
	})
	route(t, "world0", unix.RTN_UNICAST, "10.77.0.2", "0.0.0.0/0")
	route(t, "world0", unix.RTN_UNICAST, "fd77::2", "::/0")
}

// route adds one to the calling thread's namespace.
func route(t *testing.T, dev string, kind int, via, to string) {
	t.Helper()
	link, err := netlink.LinkByName(dev)
	r := &netlink.Route{Type: kind, Table: unix.RT_TABLE_MAIN}
	if err == nil {
		r.LinkIndex = link.Attrs().Index
		r.Dst, err = netlink.ParseIPNet(to)
	}
	if kind == unix.RTN_LOCAL {
		r.Scope = unix.RT_SCOPE_HOST
	}
	if err == nil && via != "" {
		var gw *netlink.Addr
		if gw, err = netlink.ParseAddr(via + "/32"); err == nil {
			r.Gw = gw.IP
		}
	}
	if err == nil {
		err = netlink.RouteAdd(r)
	}
	if err != nil {
		t.Errorf("route to %s: %v", to, err)
	}
}

// The host's files of these tests. The first names the resolver; under the second
// a proxy asks the one that Docker gave to the container.
// The third also lets a bundle have the host's own network namespace.
var (
	allowing       = newHostFile("allowing", fmt.Sprintf(allowingText, resolverLine, "false"))
	allowingDocker = newHostFile("allowing-docker", fmt.Sprintf(allowingText, "", "false"))
	allowingHost   = newHostFile("allowing-host", fmt.Sprintf(allowingText, resolverLine, "true"))
)

const (
	egressAudit  = "/var/log/sage-ring-egress"
	resolverLine = "egress: {nameservers: [\"" + worldResolver + "\"]}"
	allowingText = `version: 1
audit_dir: ` + egressAudit + `
shared_namespaces: [network]
%s
profiles:
  sage: {defaults: {resources: {require_hard_limits: false}}}
  agent:
    defaults: {resources: {require_hard_limits: false}}
    limits: {network: {modes: [none, allowlist], dials: [auto, engine, host], allowed_hosts: [allowed.test, private.test, metadata.test], host_network: %s}}
  service:
    defaults: {resources: {require_hard_limits: false}}
    limits: {network: {modes: [none, allowlist], allowed_hosts: [allowed.test]}}
`
)

// allowedHosts are the flags of a container that may reach what is named.
func allowedHosts(hosts string, more ...string) []string {
	return append([]string{
		"--annotation=sage.sandbox.profile=agent", "--annotation=sage.sandbox.network.mode=allowlist",
		"--annotation=sage.sandbox.network.allowed_hosts=" + hosts,
	}, more...)
}

// clientImage is Busybox with this test binary in it, as the client.
const clientImage = "sage.test/client:1"

var clientTar = sync.OnceValues(func() (string, error) {
	dir := theRing.path("client")
	archive := filepath.Join(dir, "client.tar")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := copyProgram("/proc/self/exe", filepath.Join(dir, caller.Verb)); err != nil {
		return "", err
	}
	if err := copyFile(rootfsTar(), archive); err != nil {
		return "", err
	}
	out, err := exec.Command("tar", "-rf", archive, "-C", dir, "--owner=0", "--group=0", caller.Verb, "ca.pem").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return archive, err
})

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err == nil {
		err = out.Close()
	}
	return err
}

// dockerClient brings the image to Docker.
func dockerClient(t *testing.T) {
	t.Helper()
	needDockerd(t)
	dir := theRing.path("client")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), harness.WorldCA(t), 0o644); err != nil {
		t.Fatal(err)
	}
	archive, err := clientTar()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(egressAudit, 0o755); err != nil {
		t.Fatal(err)
	}
	d := newDocker(t, "")
	if d.try(t, "image", "inspect", clientImage).code != 0 {
		d.must(t, "import", archive, clientImage)
	}
}

// does is the client's command line.
func does(what ...string) []string { return append([]string{"/" + caller.Verb, caller.Verb}, what...) }
