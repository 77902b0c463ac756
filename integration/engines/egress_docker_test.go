//go:build engines

package engines

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sage-sandbox/sage/integration/harness"
)

// egressNetwork is one of Docker's ways to give a container a network.
type egressNetwork struct {
	name  string
	file  hostFile
	flags []string
	from  string // where the proxy is to dial from
}

const userNetwork = "sage-egress"

var egressNetworks = []egressNetwork{
	{"bridge", allowing, []string{"--network=bridge"}, "engine"},
	{"none", allowing, []string{"--network=none"}, "host"},
	// Docker's own resolver is asked, which asks the one outside; by the proxy alone.
	{"user-defined", allowingDocker, []string{"--network=" + userNetwork, "--dns=11.22.33.53"}, "engine"},
}

// withUserNetwork makes the user-defined network, with IPv6.
func withUserNetwork(t *testing.T, flags ...string) {
	t.Helper()
	d := newDocker(t, "")
	d.must(t, slices.Concat([]string{"network", "create", "--ipv6", "--subnet=10.214.0.0/24", "--subnet=fd14::/64"}, flags, []string{userNetwork})...)
	t.Cleanup(func() { d.quietly("network", "rm", userNetwork) })
}

// TestEgressDocker: an allowlisted container on each network of Docker's, by
// runc's shim and by ours, from its first program and from an exec, and to its end.
//
// Proves: S-060, S-068, S-076, S-078, S-079, S-089.
func TestEgressDocker(t *testing.T) {
	dockerClient(t)
	w := newWorld(t)
	withUserNetwork(t)
	ends := [][]string{{"stop", "--timeout=0"}, {"kill"}, {"rm", "--force"}}
	for i, n := range egressNetworks {
		for j, runtime := range []string{n.file.docker(), n.file.dockerShim()} {
			t.Run(n.name+" "+runtime, func(t *testing.T) {
				c := startEgress(t, newDocker(t, runtime), n, allowedHosts("allowed.test"))
				c.reaches(t, w)
				c.wantAudit(t, n.from)
				c.wantEnd(t, ends[(i+j)%len(ends)]...)
			})
		}
	}
}

// egressContainer runs, with a bridge and a proxy.
type egressContainer struct {
	docker
	id      string
	serving serving
}

// serving is the record of who serves a container.
type serving struct {
	Cgroup        string
	Bridge, Proxy *struct{ Pid int }
	DialsFrom     string `json:"dials_from"`
}

func startEgress(t *testing.T, d docker, n egressNetwork, flags []string) egressContainer {
	t.Helper()
	args := slices.Concat([]string{"run", "--detach", "--init=false", "--runtime", d.runtime}, n.flags, flags, []string{clientImage}, does("get https://allowed.test/", "env HTTPS_PROXY", "sleep 1000s"))
	id := d.must(t, args...)
	t.Cleanup(func() { d.quietly("rm", "--force", id) })
	c := egressContainer{docker: d, id: id}
	c.read(t)
	return c
}

// read waits until the container is served, and learns by whom.
func (c *egressContainer) read(t *testing.T) {
	t.Helper()
	eventually(t, "record of a bridge and a proxy", "", func() string {
		paths, _ := filepath.Glob(theRing.path("docker/exec/runtime-*/*", c.id, "sage-network.json"))
		shims, _ := filepath.Glob(filepath.Join("/run/containerd/sage/*", c.id, "sage-network.json"))
		paths = append(paths, shims...)
		if len(paths) != 1 {
			return fmt.Sprintf("files %q", paths)
		}
		c.serving = serving{}
		if err := json.Unmarshal([]byte(contentOf(paths[0])), &c.serving); err != nil || c.serving.Bridge == nil || c.serving.Proxy == nil {
			return fmt.Sprintf("%v, %+v", err, c.serving)
		}
		return ""
	})
}

// do has the client do things in an exec, and gives what came of each.
func (c *egressContainer) do(t *testing.T, what ...string) map[string]string {
	t.Helper()
	r := c.try(t, slices.Concat([]string{"exec", c.id}, does(what...))...)
	r.want(t, 0)
	return outcomesOf(r.out)
}

func outcomesOf(out string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(out) {
		did, came, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if ok {
			all[did] = came
		}
	}
	return all
}

const (
	isServed    = `200 "hello" <nil>`
	unreachable = "network is unreachable"
)

// wantOutcomes compares, each only in the part that is given.
func wantOutcomes(t *testing.T, got, want map[string]string) {
	t.Helper()
	for did, result := range want {
		if !strings.Contains(got[did], result) {
			t.Errorf("%s: got %q, want %q", did, got[did], result)
		}
	}
}

// reaches wants the allowed host to be reached by the proxy and around its
// variables, from init and from an exec, and nothing else to be.
func (c *egressContainer) reaches(t *testing.T, w *harness.World) {
	t.Helper()
	c.awaitLog(t, c.id, "env HTTPS_PROXY: http://127.0.0.1:3128")
	c.awaitLog(t, c.id, "get https://allowed.test/: "+isServed)
	got := c.do(t, "get https://allowed.test/", "get http://allowed.test/", "unix https://allowed.test/", "direct https://allowed.test/",
		"get https://denied.test/", "unix https://denied.test/", "direct https://denied.test/", "get https://"+worldIP+"/", "direct https://"+worldIP+"/",
		"env https_proxy", "read /etc/resolv.conf")
	const refused = "CONNECT: 403 sandbox.egress_host_denied"
	wantOutcomes(t, got, map[string]string{
		"get https://allowed.test/": isServed, "get http://allowed.test/": isServed, "unix https://allowed.test/": isServed, "direct https://allowed.test/": isServed,
		"get https://denied.test/": refused, "unix https://denied.test/": refused, "get https://" + worldIP + "/": refused,
		"direct https://denied.test/": "lookup denied.test", "direct https://" + worldIP + "/": unreachable,
		"env https_proxy": "http://127.0.0.1:3128", "read /etc/resolv.conf": "nameserver 198.18.0.1",
	})
	if w.Asked("denied.test") || w.Served("denied.test") {
		t.Errorf("asked for denied.test: %t, served: %t; want neither", w.Asked("denied.test"), w.Served("denied.test"))
	}
}

func (c *egressContainer) wantAudit(t *testing.T, from string) {
	t.Helper()
	for _, want := range [][]string{
		{`"action":"allow"`, `"kind":"proxy"`, `"host":"allowed.test"`, `"addr":"` + worldIP + `:443"`, `"dials":"` + from + `"`},
		{`"action":"allow"`, `"kind":"transparent"`, `"host":"allowed.test"`},
		{`"action":"deny"`, `"kind":"proxy"`, `"host":"denied.test"`, `"code":"sandbox.egress_host_denied"`},
		{`"action":"deny"`, `"event":"dns"`, `"host":"denied.test"`},
	} {
		eventually(t, fmt.Sprintf("audit line with %q", want), "yes", func() string {
			text := contentOf(filepath.Join(egressAudit, c.id+".egress.jsonl"))
			for line := range strings.Lines(text) {
				if !slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(line, part) }) {
					return "yes"
				}
			}
			return text
		})
	}
}

// endPatience is how long the end may take on a machine that does a lot beside.
// Alone it takes less than a second, which TestEnd of integration/egress holds.
const endPatience = 10 * time.Second

// wantEnd ends the container by a command of Docker's, and with it who served it.
func (c *egressContainer) wantEnd(t *testing.T, end ...string) {
	t.Helper()
	c.must(t, append(end, c.id)...)
	since := time.Now()
	c.awaitGone(t)
	t.Logf("docker %s: nothing of its network %v later", end[0], time.Since(since).Round(time.Millisecond))
}

// awaitGone waits until bridge, proxy, their cgroup and the container's are gone.
func (c *egressContainer) awaitGone(t *testing.T) {
	t.Helper()
	var left []string
	gone := poll(endPatience, func() bool {
		left = nil
		for _, p := range []*struct{ Pid int }{c.serving.Bridge, c.serving.Proxy} {
			if syscall.Kill(p.Pid, 0) == nil {
				left = append(left, fmt.Sprintf("process %d", p.Pid))
			}
		}
		for _, pattern := range []string{"/sys/fs/cgroup/sage-egress/", "/sys/fs/cgroup/unified/sage-egress/"} {
			dirs, _ := filepath.Glob(pattern + c.id + "*")
			left = append(left, dirs...)
		}
		if _, err := os.Stat(c.serving.Cgroup); err == nil {
			left = append(left, c.serving.Cgroup)
		}
		return len(left) == 0
	})
	if !gone {
		t.Errorf("after the container's end: saw %q, want none of it", left)
	}
}

// TestEgressDockerAgain: a container that is restarted, killed by its own
// program's end, or left by dockerd, has its way out again, and only its own.
func TestEgressDockerAgain(t *testing.T) {
	dockerClient(t)
	w := newWorld(t)
	configureDocker(t, map[string]any{"live-restore": true})
	for _, runtime := range []string{allowing.docker(), allowing.dockerShim()} {
		t.Run(runtime, func(t *testing.T) {
			c := startEgress(t, newDocker(t, runtime), egressNetworks[0], allowedHosts("allowed.test"))
			before := c
			c.must(t, "restart", "--timeout=0", c.id)
			before.awaitGonePids(t)
			c.read(t)
			if c.serving.Proxy.Pid == before.serving.Proxy.Pid {
				t.Errorf("proxy: saw process %d again after a restart", c.serving.Proxy.Pid)
			}
			c.reaches(t, w)
			if err := theRing.killDockerd(); err != nil {
				t.Fatal(err)
			}
			c.reaches(t, w)
			c.wantEnd(t, "rm", "--force")
		})
	}
}

// awaitGonePids is for a container that runs again, in cgroups of the same names.
func (c *egressContainer) awaitGonePids(t *testing.T) {
	t.Helper()
	for _, p := range []*struct{ Pid int }{c.serving.Bridge, c.serving.Proxy} {
		eventually(t, "process of the container's first life", "no such process", func() string { return fmt.Sprint(syscall.Kill(p.Pid, 0)) })
	}
}
