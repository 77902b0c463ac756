package egress_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/egress"
)

// dice makes policies and requests that often meet: few names, ports, schemes.
type dice struct{ *rand.Rand }

func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

func (d dice) name() string {
	labels := []string{}
	for range 1 + d.IntN(2) {
		labels = append(labels, pick(d, "a", "a", "b", "xn--bcher-kva"))
	}
	return strings.Join(append(labels, pick(d, "example", "example", "org")), ".")
}

func (d dice) rule() string {
	port := pick(d, "", "", ":80", ":443", ":8443")
	switch d.IntN(8) {
	case 0:
		return "*" + port
	case 1:
		return pick(d, "192.0.2.1", "[2001:db8::1]") + port
	case 2:
		return "tcp://" + d.name() + pick(d, ":22", ":443")
	case 3, 4:
		return pick(d, "", "https://", "http://") + "*.a." + d.name() + port
	}
	return pick(d, "", "https://", "http://") + d.name() + port
}

func (d dice) rules(t *testing.T) []egress.Rule {
	out := []egress.Rule{}
	for range d.IntN(5) {
		out = append(out, rule(t, d.rule()))
	}
	return out
}

func (d dice) policy(t *testing.T) egress.Policy {
	return egress.Policy{
		Mode: pick(d, egress.ModeAllowlist, egress.ModeAllowlist, egress.ModeProxy), Allow: d.rules(t), Deny: pick(d, nil, nil, d.rules(t)),
		Ports: pick(d, []uint16{80, 443}, []uint16{443}), Schemes: pick(d, []string{"https"}, []string{"http", "https"}),
	}
}

func (d dice) request(t *testing.T) egress.Request {
	name := pick(d, d.name(), "a."+d.name(), "b.a."+d.name(), "192.0.2.1", "2001:db8::1")
	return egress.Request{
		Scheme: pick(d, egress.SchemeTunnel, egress.SchemeHTTPS, egress.SchemeHTTP, egress.SchemeTCP),
		Host:   host(t, name), Port: pick[uint16](d, 22, 80, 443, 443, 8443),
	}
}

// Proves: E-060, S-060, S-064: deny wins; an empty allowlist denies all; one
// more deny never allows more; what is not listed is not allowed.
func TestDecideProperties(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(1, 2))}
	allowed := 0
	for range 20_000 {
		p, q := d.policy(t), d.request(t)
		got := egress.Decide(p, q)
		say := func(format string, args ...any) {
			t.Errorf("%+v\nunder %+v\ngives %+v: %s", q, p, got, fmt.Sprintf(format, args...))
		}
		if got.Allow {
			allowed++
			if got.Code != "" || got.Scheme == egress.SchemeTunnel || q.Scheme != egress.SchemeTunnel && got.Scheme != q.Scheme {
				say("a code, or another scheme")
			}
			if !slices.ContainsFunc(p.Allow, func(r egress.Rule) bool { return r.Match(q.Host) }) && (p.Mode != egress.ModeProxy || len(p.Allow) > 0) {
				say("no rule matches the host")
			}
			if !egress.DecideName(p, q.Host).Allow || !slices.Contains(p.AllPorts(), q.Port) {
				say("the name may not be looked up, or no listener would have the port")
			}
		} else if got.Code == "" || got.Reason == "" {
			say("no code or reason")
		}
		checkDeny(t, d, p, q, got)
		none := p
		none.Mode, none.Allow = egress.ModeAllowlist, nil
		if egress.Decide(none, q).Allow || egress.DecideName(none, q.Host).Allow {
			say("an empty allowlist allows")
		}
	}
	if allowed < 800 {
		t.Errorf("only %d of the requests were allowed: the dice prove nothing", allowed)
	}
}

func checkDeny(t *testing.T, d dice, p egress.Policy, q egress.Request, got egress.Decision) {
	t.Helper()
	more := p
	extra := rule(t, d.rule())
	more.Deny = append(slices.Clone(p.Deny), extra)
	after := egress.Decide(more, q)
	if after.Allow && !got.Allow {
		t.Errorf("%+v under %+v: denying %s too allows it", q, p, extra)
	}
	if extra.Match(q.Host) && extra.Scheme() == "" && extra.Port() == 0 && (after.Allow || egress.DecideName(more, q.Host).Allow) {
		t.Errorf("%+v under %+v: denying %s does not deny it", q, p, extra)
	}
	more = p
	more.Deny = append(rules(t, "*", "192.0.2.1", "[2001:db8::1]"), p.Deny...)
	if egress.Decide(more, q).Allow {
		t.Errorf("%+v under %+v: denying all does not deny it", q, p)
	}
}

// Proves: S-068, C-01: a rule covers another if, and for names only if, each
// request that the other allows is allowed by the one.
func TestCoversAgreesWithDecide(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(3, 4))}
	schemes, ports := []string{"http", "https"}, []uint16{80, 443}
	only := func(r egress.Rule) egress.Policy {
		return egress.Policy{Mode: egress.ModeAllowlist, Allow: []egress.Rule{r}, Ports: ports, Schemes: schemes}
	}
	covered := 0
	for range 20_000 {
		r, q := rule(t, d.rule()), rule(t, d.rule())
		if !r.Covers(q, schemes, ports) {
			continue
		}
		covered++
		for range 20 {
			request := d.request(t)
			if request.Scheme == egress.SchemeTunnel {
				continue // it is one of the others, by the list
			}
			if egress.Decide(only(q), request).Allow && !egress.Decide(only(r), request).Allow {
				t.Fatalf("%s covers %s, but %+v is allowed by the latter alone", r, q, request)
			}
		}
	}
	if covered < 500 {
		t.Errorf("only %d pairs cover: the dice prove nothing", covered)
	}
}

// Proves: S-070, G-06: under a policy that denies private networks, no address
// is allowed that is not public, in whatever form it is wrapped; and opening
// them never closes anything.
func TestCheckAddrProperties(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(5, 6))}
	own := []netip.Addr{netip.MustParseAddr("203.0.114.9")}
	a := host(t, "a.example")
	for range 30_000 {
		v4 := netip.AddrFrom4([4]byte{byte(pick(d, 10, 127, 169, 172, 192, 198, 203, 100, 8, 224, d.IntN(256))), byte(pick(d, 0, 254, 168, 18, 64, d.IntN(256))), byte(d.IntN(256)), byte(d.IntN(256))})
		closed := allowlist(t)
		open := closed
		open.DenyPrivate = false
		env := egress.Env{HostAddrs: own, NAT64: prefixes("2a00:64::/96")}
		plain := egress.CheckAddr(closed, a, v4, env)
		if plain.Allow != (egress.Classify(v4) == egress.ClassPublic && v4 != own[0]) {
			t.Fatalf("%s, %v: got %+v", v4, egress.Classify(v4), plain)
		}
		for _, form := range wrapped(v4) {
			if got := egress.CheckAddr(closed, a, form, env); got.Allow != plain.Allow {
				t.Errorf("%s is %v, but as %s it is %+v", v4, plain, form, got)
			}
			if egress.CheckAddr(closed, a, form, env).Allow && !egress.CheckAddr(open, a, form, env).Allow {
				t.Errorf("%s: opening private networks closes it", form)
			}
		}
	}
}

func wrapped(v4 netip.Addr) []netip.Addr {
	b := v4.As4()
	hex := fmt.Sprintf("%02x%02x:%02x%02x", b[0], b[1], b[2], b[3])
	return []netip.Addr{
		netip.MustParseAddr("::ffff:" + v4.String()), netip.MustParseAddr("64:ff9b::" + hex),
		netip.MustParseAddr("2002:" + hex + "::1"), netip.MustParseAddr("2a00:64::" + hex),
	}
}
