//go:build kernel

package egress

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

const ok = `200 "hello" <nil>`

// A container reaches the names that it may, by the proxy and around its
// variables, and nothing else; no name that is not allowed is looked up.
//
// Proves: S-060, S-068, S-076, S-078, S-079.
func TestAllowlist(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	r := w.runtime(t)
	allowed, plain, denied := w.url("https", "allowed.test"), w.url("http", "allowed.test"), w.url("https", "denied.test")
	wild, bare := w.url("https", "a.wild.test"), w.url("https", "wild.test")
	id := harness.NewID()
	res := r.Run(t, "run", "--bundle", w.bundle(t, nil,
		"get "+allowed, "get "+plain, "get "+wild, "get "+denied, "get "+bare, "get https://192.0.2.1/", "get http://denied.test/",
		"direct "+allowed, "direct "+plain, "direct "+denied, "direct https://192.0.2.1/",
		"unix "+allowed, "unix "+denied,
		"lookup allowed.test", "lookup denied.test",
		"tcp 192.0.2.1:443", "udp 192.0.2.1:53", "tcp [2001:db8::1]:443", "udp [2001:db8::1]:53", "tcp 127.0.0.11:53", "udp 127.0.0.11:53",
		"tcp 198.18.77.77:22", "env HTTPS_PROXY", "env no_proxy", "read /etc/resolv.conf", "write /run/sage/x", "write /run/sage/egress.sock",
	), id)
	const refused = "CONNECT: 403 sandbox.egress_host_denied"
	want(t, res.Stdout, map[string]string{
		"get " + allowed: ok, "get " + plain: ok, "get " + wild: ok,
		"get " + denied: refused, "get " + bare: refused, "get https://192.0.2.1/": refused, "get http://denied.test/": "403 sandbox.egress_host_denied",
		"direct " + allowed: ok, "direct " + plain: ok, "direct " + denied: "lookup denied.test", "direct https://192.0.2.1/": "network is unreachable",
		"unix " + allowed: ok, "unix " + denied: refused,
		"lookup allowed.test": "198.1", "lookup denied.test": "server misbehaving",
		"tcp 192.0.2.1:443": unreachable, "udp 192.0.2.1:53": unreachable, "tcp [2001:db8::1]:443": unreachable, "udp [2001:db8::1]:53": unreachable,
		"tcp 127.0.0.11:53": unreachable, "udp 127.0.0.11:53": unreachable,
		"env HTTPS_PROXY": "http://127.0.0.1:3128", "env no_proxy": "localhost,127.0.0.1,::1",
		"read /etc/resolv.conf": "nameserver 198.18.0.1", "write /run/sage/x": "read-only file system", "write /run/sage/egress.sock": "no such device or address",
	})
	if res.Code != 0 || w.Asked("denied") || w.Served("denied") || !w.Asked("allowed.test") {
		t.Errorf("got %s, asked for what is denied: %t, served: %t; want neither", res, w.Asked("denied"), w.Served("denied"))
	}
}

const unreachable = "network is unreachable"

// Each decision is a line of the audit, with the place that was dialled from.
func TestAudit(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	text := w.hostText(t)
	r := harness.NewRuntimeWith(t, text)
	id := harness.NewID()
	r.Must(t, "run", "--bundle", w.bundle(t, nil, "get "+w.url("https", "allowed.test"), "get "+w.url("https", "denied.test"), "lookup denied.test"), id)
	_, rest, _ := strings.Cut(text, "audit_dir: ")
	dir, _, _ := strings.Cut(rest, "\n")
	data, err := os.ReadFile(filepath.Join(dir, id+".egress.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, has := range [][]string{
		{`"action":"allow"`, `"host":"allowed.test"`, `"rule":"https://allowed.test:`, `"addr":"127.0.0.1:`, `"dials":"host"`, `"container":"` + id},
		{`"action":"deny"`, `"kind":"proxy"`, `"host":"denied.test"`, `"code":"sandbox.egress_host_denied"`},
		{`"action":"deny"`, `"event":"dns"`, `"host":"denied.test"`},
	} {
		if !slices.ContainsFunc(strings.Split(string(data), "\n"), func(line string) bool {
			return !slices.ContainsFunc(has, func(part string) bool { return !strings.Contains(line, part) })
		}) {
			t.Errorf("saw no line with all of %v in:\n%s", has, data)
		}
	}
}

// Without the transparent path the container's own resolv.conf stays, and who
// knows of no proxy gets nowhere.
func TestNotTransparent(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	r := w.runtime(t)
	allowed := w.url("https", "allowed.test")
	res := r.Run(t, "run", "--bundle", w.bundle(t, annotate("network.transparent", "false"),
		"get "+allowed, "direct "+allowed, "tcp 198.18.0.1:53", "tcp 198.18.0.5:443"), harness.NewID())
	want(t, res.Stdout, map[string]string{
		"get " + allowed: ok, "direct " + allowed: "error", "tcp 198.18.0.1:53": unreachable, "tcp 198.18.0.5:443": unreachable,
	})
}

// An exec has the way out too, and the variables over its own.
func TestExec(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	r, id := w.runtime(t), harness.NewID()
	r.Must(t, "create", "--bundle", w.bundle(t, nil, "sleep 60s"), id)
	r.Must(t, "start", id)
	allowed, denied := w.url("https", "allowed.test"), w.url("https", "denied.test")
	args := append([]string{"exec", "--env", "https_proxy=http://evil:1", id}, w.args("get "+allowed, "get "+denied, "direct "+allowed, "tcp 192.0.2.1:80", "env https_proxy")...)
	res := r.Must(t, args...)
	want(t, res.Stdout, map[string]string{
		"get " + allowed: ok, "get " + denied: "403", "direct " + allowed: ok, "tcp 192.0.2.1:80": unreachable, "env https_proxy": "http://127.0.0.1:3128",
	})
	attest := r.Must(t, "attest", id)
	for _, line := range []string{"network guard", "network bridge", "network proxy"} {
		if !strings.Contains(attest.Stdout, line) {
			t.Errorf("attest: saw no line %q", line)
		}
	}
}

// In the mode none the same guard stands, and there is no proxy.
//
// Proves: S-061.
func TestNone(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	r := w.runtime(t)
	res := r.Run(t, "run", "--bundle", w.bundle(t, annotate("network.mode", "none"),
		"tcp 192.0.2.1:443", "udp 192.0.2.1:53", "tcp 127.0.0.1:3128", "udp 127.0.0.11:53", "read /run/sage/egress.sock", "env HTTPS_PROXY"), harness.NewID())
	want(t, res.Stdout, map[string]string{
		"tcp 192.0.2.1:443": unreachable, "udp 192.0.2.1:53": unreachable, "tcp 127.0.0.1:3128": "connection refused", "udp 127.0.0.11:53": unreachable,
		"read /run/sage/egress.sock": "no such file", "env HTTPS_PROXY": "http://127.0.0.1:9",
	})
}

// What policy shows is what there is.
func TestPolicy(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	r := w.runtime(t)
	res := r.Must(t, "policy", "--bundle", w.bundle(t, nil))
	for _, line := range []string{
		"network guard: on every packet", "proxy: at http://127.0.0.1:3128 and /run/sage/egress.sock",
		"else the host", "programs that know of no proxy: on ports",
	} {
		if !strings.Contains(res.Stdout, line) {
			t.Errorf("policy: saw no %q in:\n%s", line, res.Stdout)
		}
	}
	res = r.Must(t, "policy", "--bundle", w.bundle(t, func(s *specs.Spec) {
		annotate("network.mode", "none")(s)
		annotate("profile", "sage")(s)
	}))
	if !strings.Contains(res.Stdout, "network guard: none, because no socket of the internet can be made") {
		t.Errorf("policy under sage: saw\n%s", res.Stdout)
	}
}
