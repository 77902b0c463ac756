//go:build kernel

package clients

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"
)

// TestClients runs the programs and what beside them must be refused, all
// against the same servers.
//
// Proves: S-060, S-068, S-076, S-078.
func TestClients(t *testing.T) {
	l := newLab(t)
	t.Run("programs", l.programs)
	t.Run("others", l.others)
	t.Run("upstream", l.throughUpstream)
	if l.world.Asked("denied") || !l.world.Asked(".test") {
		t.Error("resolver: want it asked for names that are allowed, and not for denied.test")
	}
}

// without takes away all that sage puts into the environment.
const without = `for name in ${!HTTP*} ${!http*} ${!ALL_*} ${!all_*} ${!NO_*} ${!no_*} ${!NODE*} ${!JAVA*}; do unset $name; done
`

// programs fills a table, and prints it.
func (l *lab) programs(t *testing.T) {
	table := &results{got: map[string]string{}}
	t.Cleanup(func() { t.Log("\n" + table.String()) }) // when those in parallel are done
	for _, p := range list {
		for _, c := range columns {
			t.Run(p.name+"/"+c.column, func(t *testing.T) {
				t.Parallel()
				table.add(p.name+c.column, l.try(t, p, c))
			})
		}
	}
}

// try runs a program and returns, in short, what came of it.
func (l *lab) try(t *testing.T, p program, c cell) string {
	t.Helper()
	host, before := p.host+".test", ""
	if c.denied {
		host = "denied.test"
	}
	if !c.variable {
		before = without
	}
	v := l.run(t, l.runtime, before+"set -- "+host+"; . "+scripts+"/"+p.name+".sh")
	problem := v.worked(p.way(c), host)
	if c.denied {
		problem = v.wasDenied(p.says(c), p.way(c), host)
	}
	if problem != "" {
		t.Errorf("%s\naudit: %+v\ntook %v, standard output:\n%s\nstandard error:\n%s", problem, v.lines, v.Took, v.Stdout, v.Stderr)
		return "(!)"
	}
	if c.denied {
		return p.says(c)
	}
	return fmt.Sprintf("works, %s, %.1f s", p.way(c), v.Took.Seconds())
}

// worked returns what is wrong with a visit to an allowed host, or "".
func (v visit) worked(way, host string) string {
	switch {
	case v.Code != 0:
		return "want it to work, saw " + v.String()
	case v.ways("allow", host) != way:
		return fmt.Sprintf("went by %q, want %q", v.ways("allow", host), way)
	}
	return ""
}

// wasDenied is worked for a host that is not allowed.
func (v visit) wasDenied(says, way, host string) string {
	if way == transparent {
		way = "dns" // it does not come farther
	}
	switch {
	case v.Code == 0:
		return "works, want it denied"
	case !strings.Contains(v.Stdout+v.Stderr, says):
		return fmt.Sprintf("does not say %q", says)
	case v.ways("allow", host) != "" || v.ways("deny", host) != way:
		return fmt.Sprintf("was allowed by %q and denied by %q, want it denied by %q alone", v.ways("allow", host), v.ways("deny", host), way)
	}
	return ""
}

// results collects what programs that run side by side came to.
type results struct {
	sync.Mutex
	got map[string]string // by program and column
}

func (r *results) add(key, text string) {
	r.Lock()
	defer r.Unlock()
	r.got[key] = text
}

func (r *results) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "client")
	for _, c := range columns {
		fmt.Fprint(w, "\t"+c.column)
	}
	for _, p := range list {
		fmt.Fprint(w, "\n"+p.name)
		for _, c := range columns {
			fmt.Fprint(w, "\t"+r.got[p.name+c.column])
		}
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// others are what no program of the list does, each with the line of the audit
// that it must leave.
func (l *lab) others(t *testing.T) {
	const ssh, www = "ssh.test", "www.test"
	for name, tt := range map[string]struct {
		line, says string
		want       auditLine
	}{
		"plain HTTP by CONNECT": {
			"curl -sS --proxytunnel http://www.test/", "Empty reply",
			auditLine{Action: "deny", Kind: proxied, Host: www, Port: 80, Scheme: "https", Code: "sandbox.egress_not_tls"},
		},
		"ws by CONNECT": {
			"java -cp /clients Fetch websocket ws://www.test/echo", "no bytes",
			auditLine{Action: "deny", Kind: proxied, Host: www, Port: 80, Scheme: "https", Code: "sandbox.egress_not_tls"},
		},
		"ws as a request": {
			"curl -sS -H 'Connection: Upgrade' -H 'Upgrade: websocket' http://www.test/echo; false", "sandbox.egress_bad_request",
			auditLine{Action: "deny", Kind: proxied, Code: "sandbox.egress_bad_request"},
		},
		"ws around the variables": {
			without + "java -cp /clients Fetch websocket ws://www.test/echo", "status code 403",
			auditLine{Action: "deny", Kind: transparent, Host: www, Port: 80, Scheme: "http", Code: "sandbox.egress_bad_request"},
		},
		"a port by CONNECT that no rule for the host names": {
			"curl -sS --proxytunnel https://www.test:22/", "response 403",
			auditLine{Action: "deny", Kind: proxied, Host: www, Port: 22, Scheme: "tunnel", Code: "sandbox.egress_port_denied"},
		},
		"a port that no rule for the host names": {
			`exec 3<>/dev/tcp/www.test/22; echo hello >&3; cat <&3; false`, "403 Forbidden (sandbox.egress_port_denied)",
			auditLine{Action: "deny", Kind: transparent, Host: www, Port: 22, Scheme: "http", Code: "sandbox.egress_port_denied"},
		},
		"no TLS on a port that is not named for tcp": {
			"curl -sS http://ssh.test:443/; false", "sandbox.egress_port_denied",
			auditLine{Action: "deny", Kind: proxied, Host: ssh, Port: 443, Scheme: "http", Code: "sandbox.egress_port_denied"},
		},
		"ssh by CONNECT": {
			". /clients/git-ssh-connect.sh ssh.test; exit 7", "",
			auditLine{Action: "allow", Kind: proxied, Host: ssh, Port: 22, Scheme: "tcp", Unchecked: true},
		},
		"ssh": {
			". /clients/git-ssh.sh ssh.test; exit 7", "",
			auditLine{Action: "allow", Kind: transparent, Host: ssh, Port: 22, Scheme: "tcp", Unchecked: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := l.run(t, l.runtime, tt.line)
			tt.want.Event = "egress"
			if !slices.Contains(v.lines, tt.want) || (v.Code == 7) != (tt.want.Action == "allow") || v.Code == 0 || !strings.Contains(v.Stdout+v.Stderr, tt.says) {
				t.Errorf("saw %s\naudit: %+v\nwant %q and the line %+v", v, v.lines, tt.says, tt.want)
			}
		})
	}
}

// throughUpstream has the mode proxy with an upstream proxy that is spoken to in
// TLS, verified by the host's own roots. It is asked for addresses, never names.
//
// Proves: S-067, S-086.
func (l *lab) throughUpstream(t *testing.T) {
	l.trustOnHost(t)
	u := serveUpstream(t, l.authority)
	r := l.runtimeWith(t, "mode: proxy\n        proxy_url: https://proxy.test:"+upstreamPort, "limits: {network: {modes: [none, proxy]}}")
	for _, line := range []string{"", without} {
		v := l.run(t, r, line+"set -- www.test; . "+scripts+"/curl.sh")
		if v.Code != 0 || len(v.lines) == 0 || v.lines[len(v.lines)-1].Upstream != "proxy.test:"+upstreamPort {
			t.Errorf("saw %s\naudit: %+v", v, v.lines)
		}
	}
	v := l.run(t, r, "set -- denied.test; . "+scripts+"/curl.sh")
	if problem := v.wasDenied("response 403", proxied, "denied.test"); problem != "" {
		t.Errorf("%s: %s\naudit: %+v", problem, v, v.lines)
	}
	if diff := cmp.Diff([]string{"CONNECT " + address + ":443", "CONNECT " + address + ":443"}, u.requests()); diff != "" {
		t.Errorf("asked of the upstream proxy (-want +got):\n%s", diff)
	}
}
