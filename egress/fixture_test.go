package egress_test

import (
	"net/netip"
	"testing"

	"github.com/sage-sandbox/sage/egress"
)

func rule(t testing.TB, s string) egress.Rule {
	t.Helper()
	r, err := egress.ParseRule(s)
	if err != nil {
		t.Fatalf("rule %q: %v", s, err)
	}
	return r
}

func rules(t testing.TB, list ...string) []egress.Rule {
	t.Helper()
	out := []egress.Rule{}
	for _, s := range list {
		out = append(out, rule(t, s))
	}
	return out
}

func host(t testing.TB, s string) egress.Host {
	t.Helper()
	h, err := egress.ParseHost(s)
	if err != nil {
		t.Fatalf("host %q: %v", s, err)
	}
	return h
}

// allowlist is a policy that allows a list of rules on the usual ports.
func allowlist(t testing.TB, allow ...string) egress.Policy {
	t.Helper()
	return egress.Policy{
		Mode: egress.ModeAllowlist, Allow: rules(t, allow...), Ports: []uint16{80, 443},
		Schemes: []string{"http", "https"}, DenyPrivate: true, ECH: egress.ECHRefuse,
	}
}

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}
