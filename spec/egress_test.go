package spec_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/spec"
)

// TestEgressPolicy follows every value of the file into the proxy's own terms.
//
// Proves: S-064, S-065, S-066, S-069, S-070, S-071, S-074.
func TestEgressPolicy(t *testing.T) {
	text := strings.Replace(full, "mode: allowlist", "mode: proxy\n        proxy_url: https://[2001:db8::2]:3128", 1)
	text = strings.Replace(text, "modes: [none, allowlist]", "modes: [none, proxy]", 1)
	got, err := spec.EgressPolicy(resolved(t, parse(t, text), nil))
	if err != nil {
		t.Fatal(err)
	}
	rule := func(list ...string) []egress.Rule {
		var out []egress.Rule
		for _, s := range list {
			r, err := egress.ParseRule(s)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, r)
		}
		return out
	}
	want := egress.Policy{
		Mode: egress.ModeProxy, Allow: rule("*.pythonhosted.org", "pypi.org", "tcp://db.example:5432"), Deny: rule("192.0.2.9", "bad.pythonhosted.org"),
		Ports: []uint16{443}, Schemes: []string{"https"}, DenyPrivate: true, Upstream: &egress.Upstream{Scheme: "https", Host: "2001:db8::2", Port: 3128},
		ECH: egress.ECHOuter, Limits: egress.Limits{Wall: time.Minute, Upload: 1000, Download: 2000, Total: 3000, Connections: 10, Active: 5},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(egress.Rule{})); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	for _, p := range []spec.Policy{
		{Network: spec.Network{AllowedHosts: []string{"*.com"}}},
		{Network: spec.Network{DeniedHosts: []string{"A.example"}}},
		{Network: spec.Network{ProxyURL: "http://p.example"}},
	} {
		if got, err := spec.EgressPolicy(p); err == nil {
			t.Errorf("%+v: got %+v, want an error", p.Network, got)
		}
	}
}

// TestEgressPolicyProperties: whatever Resolve makes, the proxy can be given,
// and reads back as the same.
//
// Proves: S-060, S-064.
func TestEgressPolicyProperties(t *testing.T) {
	proxied := 0
	for seed := range uint64(100) {
		d := dice{rand.New(rand.NewPCG(seed, 9))}
		text, _ := d.host(t)
		h := parse(t, text)
		for range 30 {
			r, err := spec.Resolve(h, d.bundle())
			if err != nil {
				continue
			}
			p, err := spec.EgressPolicy(r.Policy)
			if err != nil {
				t.Fatalf("%+v: %v", r.Policy.Network, err)
			}
			data, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			again, err := egress.Decode[egress.Policy](data)
			if diff := cmp.Diff(p, again, cmpopts.EquateComparable(egress.Rule{})); diff != "" || err != nil {
				t.Fatalf("%v, policy (-want +got):\n%s", err, diff)
			}
			host, err := egress.ParseHost("nobody.lists.this")
			if err != nil {
				t.Fatal(err)
			}
			d := egress.Decide(p, egress.Request{Scheme: egress.SchemeTunnel, Host: host, Port: 443})
			n := r.Policy.Network
			if n.Mode == spec.NetworkNone && d.Allow || n.Mode == spec.NetworkAllowlist && len(n.AllowedHosts) == 0 && d.Allow {
				t.Fatalf("%+v allows a host: %+v", n, d)
			}
			if len(p.AllPorts()) > 0 {
				proxied++
			}
		}
	}
	if proxied < 100 {
		t.Errorf("only %d policies had a proxy with something to do", proxied)
	}
}
