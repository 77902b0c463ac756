package hardening

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/spec"
)

func allowlist(change func(*spec.Network)) func(*spec.Policy) {
	return func(p *spec.Policy) {
		p.Network.Mode, p.Network.Transparent = spec.NetworkAllowlist, true
		if change != nil {
			change(&p.Network)
		}
	}
}

// What leads to the proxy lies over everything else, and cannot be written.
//
// Proves: S-076.
func TestEgressMounts(t *testing.T) {
	ours := func(want ...string) func(*testing.T, Result) {
		return func(t *testing.T, r Result) {
			t.Helper()
			var got []string
			for _, m := range r.Spec.Mounts {
				if strings.HasPrefix(m.Source, "/run/sage/c/") || m.Destination == ResolvConf {
					got = append(got, m.Destination+" "+m.Source)
					if m.Type != "bind" || !slices.Contains(m.Options, "ro") || !slices.Contains(m.Options, "nosuid") {
						t.Errorf("got %+v, want a read-only bind", m)
					}
				}
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("got, want: %s", diff)
			}
			last := r.Spec.Mounts[len(r.Spec.Mounts)-len(want):]
			if !strings.HasPrefix(last[0].Source, "/run/sage/c/") {
				t.Errorf("got %+v last, want ours", last)
			}
		}
	}
	const socket, resolver = "/run/sage /run/sage/c/run", "/etc/resolv.conf /run/sage/c/resolv.conf"
	engines := mounts(bind("/var/lib/engine/resolv.conf", "/etc/resolv.conf"))
	runCases(t, loose, []outcome{
		{name: "own namespace", policy: allowlist(nil), check: ours(socket, resolver)},
		{name: "the engine's resolver gives way", bundle: engines, policy: allowlist(nil), check: ours(socket, resolver)},
		{name: "not transparent", bundle: engines, policy: allowlist(func(n *spec.Network) { n.Transparent = false }), check: func(t *testing.T, r Result) {
			if m := r.Spec.Mounts[len(r.Spec.Mounts)-1]; m.Destination != SocketFolder {
				t.Errorf("got %+v last, want the socket's folder alone", m)
			}
		}},
		{name: "shared namespace", bundle: joins("network"), policy: allowlist(nil), check: ours(socket)},
		{name: "read paths come before", policy: func(p *spec.Policy) {
			allowlist(nil)(p)
			p.Files.ReadPaths = []string{"/srv/data"}
		}, facts: func(f *Facts) { f.ReadPaths = []MountFacts{{Kind: SourceDirectory, Source: "/srv/data"}} }, check: ours(socket, resolver)},
		{name: "no proxy", check: func(t *testing.T, r Result) {
			for _, m := range r.Spec.Mounts {
				if m.Destination == SocketFolder {
					t.Errorf("got %+v, want nothing of a proxy", m)
				}
			}
		}},
		{
			name: "the image leads it elsewhere", policy: allowlist(nil), facts: func(f *Facts) { f.Egress.ResolvConfAt = "/run/systemd/resolve/stub-resolv.conf" },
			check: ours(socket, "/run/systemd/resolve/stub-resolv.conf /run/sage/c/resolv.conf"),
		},
		{name: "to the kernel", policy: allowlist(nil), facts: func(f *Facts) { f.Egress.FolderAt = "/proc/1" }, denied: `saw /run/sage lead to "/proc/1"`},
		{name: "to the root", policy: allowlist(nil), facts: func(f *Facts) { f.Egress.FolderAt = "/" }, denied: `saw /run/sage lead to "/"`},
		{name: "nothing is known", policy: allowlist(nil), facts: func(f *Facts) { f.Egress = EgressFacts{} }, denied: "nothing is known"},
	})
}

// The way to the proxy wins over image and user; the host's own word over it.
//
// Proves: S-078.
func TestProxyEnvironment(t *testing.T) {
	const java = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3129 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3129 -Dhttp.nonProxyHosts="
	vars := func(direct string, more ...string) []string {
		const p = "=http://127.0.0.1:3129"
		return append([]string{
			"HTTP_PROXY" + p, "http_proxy" + p, "HTTPS_PROXY" + p, "https_proxy" + p, "ALL_PROXY" + p, "all_proxy" + p,
			"NO_PROXY=" + direct, "no_proxy=" + direct, "NODE_USE_ENV_PROXY=1",
		}, more...)
	}
	for _, c := range []struct {
		name   string
		env    []string
		own    bool
		change func(*spec.Policy)
		want   []string
	}{
		{name: "over the user's", env: []string{"A=1", "https_proxy=http://evil", "no_proxy=*", "NODE_USE_ENV_PROXY=0"}, own: true, want: append([]string{"A=1"}, vars("")...)},
		{name: "where loopback is the container's", own: true, change: func(p *spec.Policy) { p.Network.Listen = spec.ListenLoopback }, want: vars("localhost,127.0.0.1,::1")},
		{name: "where loopback is others' too", change: func(p *spec.Policy) { p.Network.Listen = spec.ListenLoopback }, want: vars("")},
		{name: "Java", own: true, change: func(p *spec.Policy) { p.Network.JavaToolOptions = true }, want: vars("", "JAVA_TOOL_OPTIONS="+java)},
		{name: "Java with options", env: []string{"JAVA_TOOL_OPTIONS=-Xmx1g"}, own: true, change: func(p *spec.Policy) { p.Network.JavaToolOptions = true }, want: vars("", "JAVA_TOOL_OPTIONS=-Xmx1g "+java)},
		{
			name: "Java, hardened before", env: []string{"JAVA_TOOL_OPTIONS=-Xmx1g " + strings.ReplaceAll(java, "3129", "3128")}, own: true,
			change: func(p *spec.Policy) { p.Network.JavaToolOptions = true }, want: vars("", "JAVA_TOOL_OPTIONS=-Xmx1g "+java),
		},
		{name: "not asked about", env: []string{"HTTP_PROXY=x"}, own: true, change: func(p *spec.Policy) { p.Process.AllowedEnv = []string{} }, want: vars("")},
		{name: "the host's word", own: true, change: func(p *spec.Policy) { p.Process.ForceEnv = []string{"NO_PROXY=a.example"} }, want: append(slices.DeleteFunc(vars(""), func(e string) bool { return e == "NO_PROXY=" }), "NO_PROXY=a.example")},
		{name: "no proxy", env: []string{"HTTP_PROXY=x"}, change: func(p *spec.Policy) { p.Network.Mode = spec.NetworkNone }, want: []string{"HTTP_PROXY=x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := strict()
			p.Network.Mode = spec.NetworkAllowlist
			if c.change != nil {
				c.change(&p)
			}
			got, _, err := ApplyProcess(&specs.Process{Cwd: "/", Env: c.env}, p, Facts{Egress: EgressFacts{Port: 3129, Own: c.own}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got.Env, c.want); diff != "" {
				t.Errorf("got, want: %s", diff)
			}
		})
	}
}
