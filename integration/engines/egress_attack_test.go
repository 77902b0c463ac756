//go:build engines

package engines

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestEgressDockerAttacks: what is done to a container's proxy and bridge, from
// inside, from beside and by whoever shares its network.
//
// Proves: S-075, S-089, S-090.
func TestEgressDockerAttacks(t *testing.T) {
	dockerClient(t)
	w := newWorld(t)
	withUserNetwork(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *harness.World)
	}{
		{"the same network namespace", egressJoined},
		{"a neighbour with route_localnet", egressNeighbour},
		{"an internal network", egressInternal},
		{"a drop rule in its namespace", egressDropRule},
		{"private and metadata addresses", egressAddresses},
		{"signals and ptrace", egressSignals},
		{"idle connections and no descriptors", egressIdle},
		{"no memory", egressMemory},
		{"the proxy killed", egressKilled},
		{"a published port", egressPublished},
		{"the host's network", egressHostNetwork},
		{"Docker's resolver in resolv.conf", egressDockerResolver},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, w) })
	}
}

func onBridge(t *testing.T, flags ...string) egressContainer {
	t.Helper()
	return startEgress(t, newDocker(t, allowing.docker()), egressNetworks[0], allowedHosts("allowed.test", flags...))
}

// Another container joins the namespace. With an allowlist it has a bridge of its
// own and can reach neither the first one's nor its addresses; and a host's file
// that does not list shared namespaces refuses it.
func egressJoined(t *testing.T, _ *harness.World) {
	first := onBridge(t)
	join := []string{"--network=container:" + first.id}
	d := newDocker(t, allowing.docker())
	second := startEgress(t, d, egressNetwork{flags: join}, []string{"--annotation=sage.sandbox.profile=agent", "--annotation=sage.sandbox.network.mode=allowlist", "--annotation=sage.sandbox.network.allowed_hosts=private.test"})
	wantOutcomes(t, second.do(t, "env HTTPS_PROXY", "get https://allowed.test/", "tcp 127.0.0.1:3128", "tcp 198.18.0.1:53", "udp 198.18.0.1:53", "tcp "+worldIP+":443"), map[string]string{
		"env HTTPS_PROXY": "http://127.0.0.1:3129", "get https://allowed.test/": "403 sandbox.egress_host_denied",
		"tcp 127.0.0.1:3128": unreachable, "tcp 198.18.0.1:53": unreachable, "udp 198.18.0.1:53": unreachable, "tcp " + worldIP + ":443": unreachable,
	})
	wantOutcomes(t, first.do(t, "get https://allowed.test/", "tcp 127.0.0.1:3129"), map[string]string{"get https://allowed.test/": isServed})
	// What no policy binds can connect, and is nobody to the first one's bridge.
	stranger := newDocker(t, "sage").try(t, slices.Concat([]string{"run", "--rm", "--runtime=sage", "--env=HTTPS_PROXY=http://127.0.0.1:3128"}, join, []string{clientImage}, does("get https://allowed.test/"))...)
	if got := outcomesOf(stranger.out)["get https://allowed.test/"]; got == "" || strings.Contains(got, "200") || strings.Contains(got, "sandbox.") {
		t.Errorf("a container without a policy: got %q%s, want its connection closed", got, stranger.errs)
	}
	second.wantEnd(t, "rm", "--force")
	wantOutcomes(t, first.do(t, "get https://allowed.test/"), map[string]string{"get https://allowed.test/": isServed})
	refused := newDocker(t, softAgent.docker())
	refused.try(t, slices.Concat([]string{"run", "--rm", "--runtime", refused.runtime}, join, []string{busybox, "true"})...).want(t, 125, "network namespace", "[sandbox.")
}

// A neighbour sends packets for 127.0.0.1 to the container, whose kernel would
// take them: the sysctl is set from outside, as Docker's --sysctl is refused.
func egressNeighbour(t *testing.T, _ *harness.World) {
	listener := newDocker(t, "sage").must(t, slices.Concat([]string{"run", "--detach", "--runtime=sage", clientImage}, does("serve 127.0.0.1:3128"))...)
	t.Cleanup(func() { newDocker(t, "sage").quietly("rm", "--force", listener) })
	c := onBridge(t)
	for id, want := range map[string]string{listener: "<nil>", c.id: "connection refused"} {
		within(t, c.inspect(t, id, ".State.Pid"), func() error {
			return os.WriteFile("/proc/sys/net/ipv4/conf/all/route_localnet", []byte("1"), 0)
		})
		address := c.inspect(t, id, ".NetworkSettings.Networks.bridge.IPAddress")
		script := "echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet && ip addr del 127.0.0.1/8 dev lo && ip route flush table local 127.0.0.0/8; " +
			"ip route add 127.0.0.1/32 via " + address + " && exec /" + strings.Join(does("'tcp 127.0.0.1:3128'"), " ")[1:]
		r := newDocker(t, "sage").try(t, "run", "--rm", "--privileged", "--runtime=sage", clientImage, "sh", "-c", script)
		if got := outcomesOf(r.out)["tcp 127.0.0.1:3128"]; !strings.Contains(got, want) {
			t.Errorf("a neighbour of %s: got %q%s, want %q", id, got, r.errs, want)
		}
	}
}

// within runs f on a thread in the network namespace of a process.
func within(t *testing.T, pid string, f func() error) {
	t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := netns.GetFromPid(number)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	done := make(chan error)
	harness.OnThread(func() {
		err := netns.Set(ns)
		if err == nil {
			err = f()
		}
		done <- err
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// What Docker keeps inside, the proxy is kept inside with, for it dials from the
// container's network. Only a host's file that lets a bundle choose the host's
// network opens that.
func egressInternal(t *testing.T, _ *harness.World) {
	const internal = "sage-internal"
	d := newDocker(t, allowing.docker())
	d.must(t, "network", "create", "--internal", "--subnet=10.215.0.0/24", internal)
	t.Cleanup(func() { d.quietly("network", "rm", internal) })
	n := egressNetwork{flags: []string{"--network=" + internal}}
	for dial, want := range map[string]string{"auto": "502 sandbox.egress_resolve_failed", "host": isServed} {
		args := slices.Concat([]string{"run", "--rm", "--runtime", d.runtime}, n.flags, allowedHosts("allowed.test", "--annotation=sage.sandbox.network.dial="+dial), []string{clientImage}, does("get https://allowed.test/"))
		if got := outcomesOf(d.try(t, args...).out)["get https://allowed.test/"]; !strings.Contains(got, want) {
			t.Errorf("dialled from %s: got %q, want %q", dial, got, want)
		}
	}
}

// As a NetworkPolicy does, a rule in the container's namespace governs the proxy.
func egressDropRule(t *testing.T, _ *harness.World) {
	c := onBridge(t)
	wantOutcomes(t, c.do(t, "get https://allowed.test/"), map[string]string{"get https://allowed.test/": isServed})
	within(t, c.inspect(t, c.id, ".State.Pid"), func() error {
		out, err := exec.Command("iptables", "-A", "OUTPUT", "-d", worldIP, "-j", "REJECT").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	wantOutcomes(t, c.do(t, "get https://allowed.test/"), map[string]string{"get https://allowed.test/": "502 sandbox.egress_connect_failed"})
}

// An allowed name that leads to an address that is not public is not dialled.
func egressAddresses(t *testing.T, w *harness.World) {
	c := startEgress(t, newDocker(t, allowing.docker()), egressNetworks[0], allowedHosts("allowed.test,private.test,metadata.test"))
	const refused = "403 sandbox.egress_address_denied"
	wantOutcomes(t, c.do(t, "get https://private.test/", "get http://metadata.test/"), map[string]string{"get https://private.test/": refused, "get http://metadata.test/": refused})
	if w.Served("private.test") || w.Served("metadata.test") {
		t.Error("saw a server be reached by an address that is not public")
	}
}

// Neither is to be seen from the container's pid namespace, whoever asks.
func egressSignals(t *testing.T, _ *harness.World) {
	c := onBridge(t)
	for name, pid := range map[string]int{"bridge": c.serving.Bridge.Pid, "proxy": c.serving.Proxy.Pid} {
		what := fmt.Sprint("touch ", pid)
		wantOutcomes(t, c.do(t, what), map[string]string{
			what: "kill no such process, ptrace no such process, read operation not permitted, pidfd no such process, seen in proc false",
		})
		if err := syscall.Kill(pid, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantOutcomes(t, c.do(t, "get https://allowed.test/"), map[string]string{"get https://allowed.test/": isServed})
}

// As many connections that say nothing as a program may have descriptors, which
// are 1024 in this profile; egress/proxy and egress/bridge try 10 000. The proxy
// takes as many as its policy says, refuses what is above or lets it wait, does
// not grow, and serves again when they are gone.
func egressIdle(t *testing.T, _ *harness.World) {
	c := onBridge(t, "--ulimit=nofile=20000:20000")
	flood := c.pipes(t, slices.Concat([]string{"exec", c.id}, does("idle 10000"))...)
	// Longer than expect waits: a thousand connections are a thousand visits to the
	// bridge and the proxy each.
	if !flood.awaitPhrase(hang, "idle: ") {
		t.Fatalf("a thousand connections: saw no end of them after %v", hang)
	}
	t.Logf("a program in the container: %s", strings.TrimSpace(flood.said.String()))
	got := c.do(t, "get https://allowed.test/")["get https://allowed.test/"]
	t.Logf("meanwhile another got %q", got)
	if got == "" || strings.Contains(got, "refused") || strings.Contains(got, "reset") {
		t.Errorf("beside idle connections: got %q, want an answer, or to wait for one", got)
	}
	for name, pid := range map[string]int{"bridge": c.serving.Bridge.Pid, "proxy": c.serving.Proxy.Pid} {
		kib := residentKiB(t, pid)
		t.Logf("%s: %d KiB resident", name, kib)
		if kib > 64<<10 {
			t.Errorf("%s: saw %d KiB resident, want 64 MiB at most", name, kib)
		}
	}
	c.must(t, "exec", c.id, "touch", "/over")
	flood.wantEnd(0)
	c.servesAgain(t)
}

func (c *egressContainer) servesAgain(t *testing.T) {
	t.Helper()
	const url = "get https://allowed.test/"
	eventually(t, url, isServed, func() string { return c.do(t, url)[url] })
}

func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	for line := range strings.Lines(contentOf(fmt.Sprintf("/proc/%d/status", pid))) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib
		}
	}
	t.Fatalf("process %d: saw no resident size", pid)
	return 0
}

// The kernel kills what eats the container's memory, and nothing beside it.
func egressMemory(t *testing.T, _ *harness.World) {
	c := onBridge(t, "--memory=64m", "--memory-swap=64m")
	c.try(t, slices.Concat([]string{"exec", c.id}, does("eat 200"))...).want(t, 137)
	c.servesAgain(t)
}

// Without its proxy a container lives, and has no network but an answer that
// says so.
func egressKilled(t *testing.T, _ *harness.World) {
	c := onBridge(t)
	kill := func(pid int) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the process", "no such process", func() string { return fmt.Sprint(syscall.Kill(pid, 0)) })
	}
	what := []string{"get https://allowed.test/", "direct https://allowed.test/", "tcp " + worldIP + ":443"}
	kill(c.serving.Proxy.Pid)
	wantOutcomes(t, c.do(t, what...), map[string]string{what[0]: "502 sandbox.egress_unavailable", what[1]: "error: ", what[2]: unreachable})
	kill(c.serving.Bridge.Pid)
	wantOutcomes(t, c.do(t, what...), map[string]string{what[0]: "connection refused", what[1]: "error: ", what[2]: unreachable})
	if got := c.inspect(t, c.id, ".State.Status"); got != "running" {
		t.Errorf("state: got %s, want running", got)
	}
	c.wantEnd(t, "rm", "--force")
}

// Without the transparent path resolv.conf is Docker's, with the resolver that
// would carry any name out (attacks.md 9): programs ask it in vain, the proxy not.
func egressDockerResolver(t *testing.T, w *harness.World) {
	n := egressNetworks[2]
	c := startEgress(t, newDocker(t, n.file.docker()), n, allowedHosts("allowed.test", "--annotation=sage.sandbox.network.transparent=false"))
	wantOutcomes(t, c.do(t, "read /etc/resolv.conf", "lookup stolen.secret.test", "get https://allowed.test/"), map[string]string{
		"read /etc/resolv.conf": "nameserver 127.0.0.11", "lookup stolen.secret.test": unreachable, "get https://allowed.test/": isServed,
	})
	if w.Asked("stolen") {
		t.Error("the resolver outside was asked for a name that only a program in the container knows")
	}
}

// A port is published where the profile lets a program listen for everybody, and
// who is asked by it still can ask nobody (attacks.md 20).
func egressPublished(t *testing.T, _ *harness.World) {
	for _, profile := range []string{"service", "agent"} {
		c := onBridge(t, "--annotation=sage.sandbox.profile="+profile, "--publish=127.0.0.1::8080")
		serving := c.pipes(t, slices.Concat([]string{"exec", c.id}, does("serve 0.0.0.0:8080"))...)
		serving.expect("serving")
		published := c.must(t, "port", c.id, "8080")
		if profile == "service" {
			eventually(t, "answer at "+published, "served\n", func() string { return dialed(published) })
		} else if got := answered(published, time.Second); got != "" {
			t.Errorf("under %s, which listens for itself alone: got %q from outside", profile, got)
		}
		wantOutcomes(t, c.do(t, "tcp "+worldIP+":443", "get https://allowed.test/"), map[string]string{"tcp " + worldIP + ":443": unreachable, "get https://allowed.test/": isServed})
		c.wantEnd(t, "kill")
	}
	d := newDocker(t, allowing.docker())
	id := d.must(t, slices.Concat([]string{"run", "--detach", "--runtime", d.runtime, "--publish=127.0.0.1::8080", "--annotation=sage.sandbox.profile=service", clientImage}, does("serve 0.0.0.0:8080"))...)
	t.Cleanup(func() { d.quietly("rm", "--force", id) })
	published := d.must(t, "port", id, "8080")
	eventually(t, "answer at "+published+", in the mode none", "served\n", func() string { return dialed(published) })
	r := d.try(t, slices.Concat([]string{"exec", id}, does("tcp "+worldIP+":443", "udp "+worldIP+":53"))...)
	wantOutcomes(t, outcomesOf(r.out), map[string]string{"tcp " + worldIP + ":443": unreachable, "udp " + worldIP + ":53": unreachable})
}

// answered is what a server says to whoever connects and waits so long.
func answered(address string, patience time.Duration) string {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	text, _ := io.ReadAll(conn)
	return string(text)
}

// In the host's network namespace, which a host's file has to allow, a container
// reaches its own bridge, and no server of the host's; nobody else is served there.
func egressHostNetwork(t *testing.T, _ *harness.World) {
	t.Cleanup(func() { forgetHostNetwork(t) })
	flags := allowedHosts("allowed.test")
	refused := newDocker(t, allowing.docker())
	refused.try(t, slices.Concat([]string{"run", "--rm", "--network=host", "--runtime", refused.runtime}, flags, []string{busybox, "true"})...).want(t, 125, "network namespace", "[sandbox.")
	c := startEgress(t, newDocker(t, allowingHost.docker()), egressNetwork{flags: []string{"--network=host"}}, flags)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server := "tcp " + l.Addr().String()
	wantOutcomes(t, c.do(t, "get https://allowed.test/", "get https://denied.test/", "direct https://allowed.test/", server, "tcp "+worldIP+":443"), map[string]string{
		"get https://allowed.test/": isServed, "get https://denied.test/": "403 sandbox.egress_host_denied", "direct https://allowed.test/": "error: ",
		server: unreachable, "tcp " + worldIP + ":443": unreachable,
	})
	if got := dialed("127.0.0.1:3128"); got != "EOF" && !strings.Contains(got, "reset") {
		t.Errorf("somebody else at the container's bridge: got %q, want to be hung up on", got)
	}
	c.wantEnd(t, "rm", "--force")
}
