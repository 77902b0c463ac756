//go:build engines

package engines

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

// allowlisted are the annotations of a container that may reach one host.
func allowlisted(host string) map[string]string {
	return map[string]string{
		"sage.sandbox.profile": "agent", "sage.sandbox.network.mode": "allowlist", "sage.sandbox.network.allowed_hosts": host,
	}
}

// The containers of a pod share a network namespace: two with an allowlist
// each, one with no network, and one that has what the pod has, without a guard.
var (
	mainAnnotations  = allowlisted("allowed.test")
	otherAnnotations = allowlisted("other.test")
	noneAnnotations  = map[string]string{"sage.sandbox.profile": "agent"}
	openAnnotations  = map[string]string{"sage.sandbox.profile": "open"}
)

// Each container of a pod gets to what it may itself: by a proxy of its own, at a
// port of its own, which answers no other; and what is dialled for it leaves by
// the pod's network.
//
// Proves: S-060, S-075, S-079, S-089.
func TestEgressCRI(t *testing.T) {
	w := newOutside(t)
	c := newCRI(t)
	for _, k := range []struct{ handler, root string }{
		{wayOut.cri(), "/run/containerd/runc/k8s.io"},
		{wayOut.criShim(), "/run/containerd/sage/k8s.io"},
	} {
		t.Run(k.handler, func(t *testing.T) { egressPod(t, c, k.handler, k.root) })
	}
	wantUnasked(t, w)
}

// count has curl tell an answer from a connection that is closed without one.
const count = "curl -s -o /dev/null -w '%{num_connects} connection, answer %{http_code}' "

func egressPod(t *testing.T, c client, handler, root string) {
	p := newPod(t, c, handler)
	first, none := p.start("main", mainAnnotations), p.start("none", noneAnnotations)
	other, open := p.start("other", otherAnnotations), p.start("open", openAnnotations)
	s, s2 := servedUnder(t, root, first), servedUnder(t, root, other)
	if s.DialsFrom != "engine" || s.Port == s2.Port || s.group == s2.group {
		t.Errorf("got %+v and %+v, want them apart, dialling from the pod's network", s, s2)
	}
	at, at2 := fmt.Sprintf("127.0.0.1:%d", s.Port), fmt.Sprintf("127.0.0.1:%d", s2.Port)
	harness.TryEach(t, p.in(first), fromPod(at, at2))
	harness.TryEach(t, p.in(other), []harness.Tried{
		{"echo $HTTPS_PROXY", "http://" + at2},
		{"curl -sS https://other.test/", harness.Answered},
		{"curl -sSi https://allowed.test/", harness.DeniedHost},
		{"curl -sS --proxy http://" + at + " https://allowed.test/", harness.NoConnect},
	})
	harness.TryEach(t, p.in(none), []harness.Tried{
		{"curl -sS --proxy http://" + at + " https://allowed.test/", harness.NoConnect},
		{"curl -sS --noproxy '*' http://" + outsideIP + "/", harness.NoConnect},
		{"ls /run/sage 2>&1", harness.NoSuchEntry},
	})
	harness.TryEach(t, p.in(open), []harness.Tried{
		{count + "--proxy http://" + at + " http://allowed.test/", "1 connection, answer 000"},
		{count + "--proxy http://" + at2 + " http://other.test/", "1 connection, answer 000"},
		// So that what the others do not reach is there.
		{"curl -sS --resolve open.test:80:" + outsideIP + " http://open.test/", harness.Answered},
	})
	s.attested(t)
	wantAudit(t, first, `"action":"allow"`, `"host":"allowed.test"`, `"dials":"engine"`)
	wantExplained(t, first)
	p.end(first)
	s.gone(t)
	harness.TryEach(t, p.in(other), []harness.Tried{{"curl -sS https://other.test/", harness.Answered}})
	p.remove()
	s2.gone(t)
	wantNothingOf(t, []string{p.sandbox, first, other, none, open})
}

// Where the host's file names no resolver, the proxy asks the pod's, which
// containers of the pod cannot ask themselves.
func TestEgressPodDNS(t *testing.T) {
	w := newOutside(t)
	p := newPodWith(t, newCRI(t), podDNS.criShim(), map[string]any{
		"annotations": allowlisted("allowed.test"), "dns_config": map[string]any{"servers": []string{outsideIP}},
	})
	id := p.start("main", nil)
	// The pod's annotations gave the container before it, which has the namespaces,
	// no proxy: the first port was free.
	if s := servedUnder(t, "/run/containerd/sage/k8s.io", id); s.Port != 3128 {
		t.Errorf("port: got %d, want 3128", s.Port)
	}
	harness.TryEach(t, p.in(id), []harness.Tried{
		{"cat /etc/resolv.conf", "nameserver " + outsideIP},
		{"curl -sS https://allowed.test/", harness.Answered},
		{"curl -sSi https://denied.test/", harness.DeniedHost},
		{"nslookup denied.test", harness.NoNetwork},
	})
	p.remove()
	wantUnasked(t, w)
}

// fromPod is what main can do, whose proxy is at the first address.
func fromPod(at, others string) []harness.Tried {
	return []harness.Tried{
		{"echo $HTTPS_PROXY", "http://" + at},
		{"curl -sS https://allowed.test/", harness.Answered},
		{"curl -sS http://allowed.test/", harness.Answered},
		{"curl -sSi https://denied.test/", harness.DeniedHost},
		{"curl -sSi https://other.test/", harness.DeniedHost},
		// A program that shares its namespace with others can make no AF_UNIX socket.
		{"curl -sS --unix-socket /run/sage/egress.sock http://allowed.test/", harness.NoConnect},
		{"curl -sS --proxy http://" + others + " http://other.test/", harness.NoConnect},
		// There is no transparent path, which others' programs would be led to as well.
		{"curl -sS --noproxy '*' https://allowed.test/", harness.NoName},
		{"nc -w 5 " + outsideIP + " 443 </dev/null", harness.NoNetwork},
		{"nc -w 5 198.18.0.1 53 </dev/null", harness.NoNetwork},
	}
}

// wantExplained: policy says of such a bundle what was seen above.
func wantExplained(t *testing.T, id string) {
	t.Helper()
	bundle := theRing.path("containerd", "state", "io.containerd.runtime.v2.task", "k8s.io", id)
	r, err := finish(theRing.program(wayOut.wrapper(), "policy", "--bundle", bundle))
	if err != nil {
		t.Fatal(err)
	}
	r.want(t, 0, "programs that know of no proxy: no, because the network namespace is not the container's own")
}

// sharingPod is a pod whose containers share what they share by default.
type sharingPod struct {
	t       *testing.T
	c       client
	config  string // a file with the sandbox's request
	sandbox string
	handler string
}

func newPod(t *testing.T, c client, handler string) *sharingPod {
	t.Helper()
	return newPodWith(t, c, handler, nil)
}

// newPodWith has more in its request, such as annotations for all of its
// containers.
func newPodWith(t *testing.T, c client, handler string, more map[string]any) *sharingPod {
	t.Helper()
	request := podConfig(handler)
	maps.Copy(request, more)
	request["linux"] = map[string]any{"cgroup_parent": "/" + theRing.name, "security_context": ownProcesses}
	p := &sharingPod{t: t, c: c, handler: handler, config: criFile(t, "egress-pod-"+handler, request)}
	p.sandbox = c.must(t, "runp", "--runtime", handler, p.config)
	t.Cleanup(func() { c.quietly("rmp", "--force", p.sandbox) })
	return p
}

// ownProcesses is what a kubelet asks for, and crictl does not by itself.
var ownProcesses = map[string]any{"namespace_options": map[string]any{"pid": 1}}

// start gives the id of a container that waits.
func (p *sharingPod) start(name string, annotations map[string]string) string {
	p.t.Helper()
	return p.startWith(name, map[string]any{
		"image": map[string]any{"image": harness.CurlImage}, "command": []string{"sleep", "1000"}, "annotations": annotations,
	})
}

func (p *sharingPod) startWith(name string, request map[string]any) string {
	p.t.Helper()
	request["metadata"] = map[string]any{"name": name}
	request["log_path"] = name + ".log"
	request["linux"] = map[string]any{"security_context": ownProcesses}
	file := criFile(p.t, "egress-"+p.handler+"-"+name, request)
	id := p.c.must(p.t, "create", "--no-pull", p.sandbox, file, p.config)
	p.c.must(p.t, "start", id)
	return id
}

// in is for [harness.TryEach].
func (p *sharingPod) in(id string) func(script string) string {
	return func(script string) string { return p.c.must(p.t, "exec", "--sync", id, "sh", "-c", script) }
}

func (p *sharingPod) state(id string) string {
	p.t.Helper()
	return p.c.must(p.t, "inspect", "--output=go-template", "--template={{.status.state}} {{.status.exitCode}}", id)
}

func (p *sharingPod) end(id string) {
	p.t.Helper()
	p.c.must(p.t, "stop", "--timeout=0", id)
	p.c.must(p.t, "rm", id)
}

func (p *sharingPod) remove() {
	p.t.Helper()
	for id := range strings.FieldsSeq(p.c.must(p.t, "ps", "--all", "--quiet", "--pod", p.sandbox)) {
		p.end(id)
	}
	p.c.must(p.t, "stopp", p.sandbox)
	p.c.must(p.t, "rmp", p.sandbox)
}
