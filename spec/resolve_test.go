package spec_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// bundle has annotations by their keys without the prefix.
func bundle(annotations map[string]string) *specs.Spec {
	s := &specs.Spec{Annotations: map[string]string{"org.example.other": "x"}}
	for key, text := range annotations {
		s.Annotations[spec.AnnotationPrefix+key] = text
	}
	return s
}

func resolved(t *testing.T, h *spec.Host, annotations map[string]string) spec.Policy {
	t.Helper()
	r, err := spec.Resolve(h, bundle(annotations))
	if err != nil {
		t.Fatal(err)
	}
	return r.Policy
}

func reasons(r spec.Resolution) map[string]spec.Reason {
	out := map[string]spec.Reason{}
	for _, reason := range r.Reasons {
		out[reason.Field] = reason
	}
	return out
}

// roomy is a host with a profile for every kind of ceiling.
const roomy = `version: 1
default_profile: ci
allowed_profiles: [agent, closed, every, late, net, open, proxied]
profiles:
  ci:
    extends: agent
    defaults:
      resources: {require_hard_limits: false}
      network: {allowed_hosts: [pypi.org]}
      process: {capabilities: [CHOWN, KILL], allowed_env_names: [LANG, PATH, TERM]}
      files: {protected_paths: [/work/.git]}
    limits:
      network: {allowed_hosts: [pypi.org, "*.example.org", 192.0.2.1, "tcp://db.example:5432", "https://tls.example"], allowed_ports: [80, 443, 8443], ech: outer, dials: [auto, engine]}
      timeout_seconds: 3600
  open: {extends: agent}
  every: {extends: agent, limits: {network: {allowed_hosts: ["*", 192.0.2.1]}}}
  closed: {extends: agent, defaults: {network: {denied_hosts: ["*.bad.example"], transparent: false}}}
  net:
    extends: agent
    limits: {network: {modes: [allowlist, unrestricted], deny_private_networks: false, host_network: true}}
  proxied:
    extends: agent
    defaults: {network: {mode: proxy, proxy_url: http://proxy.example:3128, allowed_hosts: [a.example]}}
    limits: {network: {modes: [allowlist, proxy]}}
  late:
    extends: agent
    defaults: {network: {proxy_url: http://proxy.example:3128}}
    limits: {network: {modes: [proxy], allowed_hosts: [a.example]}}
  hidden: {extends: agent}
`

// TestResolveAnnotations follows one annotation at a time into the policy.
//
// Proves: S-004, S-005, S-022, S-060, S-069, S-074.
func TestResolveAnnotations(t *testing.T) {
	h := parse(t, roomy)
	base := resolved(t, h, nil)
	tests := []struct {
		name, key, text string
		change          func(*spec.Policy)
	}{
		{"cpu up", "resources.cpu_percent", "400", func(p *spec.Policy) { p.Resources.CPUQuota = 400_000 }},
		{"cpu down", "resources.cpu_percent", "1", func(p *spec.Policy) { p.Resources.CPUQuota = 1000 }},
		{"memory", "resources.memory_mb", "8192", func(p *spec.Policy) { p.Resources.MemoryBytes = 8192 << 20 }},
		{"disk, and files with it", "resources.disk_mb", "5000", func(p *spec.Policy) {
			p.Resources.DiskBytes, p.Process.MaxFileBytes = 5000<<20, 5000<<20
		}},
		{"processes", "resources.max_processes", "4", func(p *spec.Policy) { p.Resources.MaxProcesses = 4 }},
		{"hard limits on", "resources.require_hard_limits", "true", func(p *spec.Policy) {
			p.Resources.RequireHardLimits, p.Files.RefusePrivileged = true, true
		}},
		{"hard limits as they are", "resources.require_hard_limits", "false", func(*spec.Policy) {}},
		{"mode", "network.mode", "allowlist", func(p *spec.Policy) {
			p.Network.Mode, p.Network.AllowedHosts = spec.NetworkAllowlist, []string{"pypi.org"}
			p.Network.AllowedPorts, p.Network.AllowedSchemes = []uint16{80, 443}, []string{"http", "https"}
			p.Network.Transparent, p.Network.Dial, p.Network.ECH, p.Network.JavaToolOptions = true, spec.DialAuto, "refuse", true
		}},
		{"no hosts and no network", "network.allowed_hosts", "[]", func(*spec.Policy) {}},
		{"private networks", "network.deny_private_networks", "true", func(*spec.Policy) {}},
		{"time of a connection", "network.max_wall_time_seconds", "10", func(p *spec.Policy) { p.Network.MaxWallTimeSeconds = 10 }},
		{"bytes sent", "network.max_request_body_bytes", "1", func(p *spec.Policy) { p.Network.MaxRequestBodyBytes = 1 }},
		{"bytes received", "network.max_response_bytes", "1073741824", func(*spec.Policy) {}},
		{"connections", "network.max_connections", "1", func(p *spec.Policy) { p.Network.MaxConnections = 1 }},
		{"active", "network.max_active", "128", func(*spec.Policy) {}},
		{"all bytes", "network.max_total_bytes", "9", func(p *spec.Policy) { p.Network.MaxTotalBytes = 9 }},
		{"no hosts denied and no network", "network.denied_hosts", "[]", func(*spec.Policy) {}},
		{"not transparent and no network", "network.transparent", "false", func(*spec.Policy) {}},
		{"listen", "network.listen", "deny", func(p *spec.Policy) { p.Network.Listen = spec.ListenDeny }},
		{"unix sockets", "network.unix_sockets", "false", func(p *spec.Policy) { p.Network.UnixSockets = false }},
		{"fewer capabilities", "process.capabilities", "KILL", func(p *spec.Policy) { p.Process.Capabilities = []string{"CAP_KILL"} }},
		{"no capabilities", "process.capabilities", "[]", func(p *spec.Policy) { p.Process.Capabilities = []string{} }},
		{"ptrace", "process.allow_ptrace", "false", func(p *spec.Policy) { p.Process.AllowPtrace = false }},
		{"addresses", "process.allow_no_randomize", "false", func(p *spec.Policy) { p.Process.AllowNoRandomize = false }},
		{"non-root", "process.require_non_root", "true", func(p *spec.Policy) { p.Process.RequireNonRoot = true }},
		{"open files", "process.max_open_files", "64", func(p *spec.Policy) { p.Process.MaxOpenFiles = 64 }},
		{"file size", "process.max_file_mb", "1", func(p *spec.Policy) { p.Process.MaxFileBytes = 1 << 20 }},
		{"output", "process.max_output_bytes", "1", func(p *spec.Policy) { p.Process.MaxOutputBytes = 1 }},
		{"file size above the disk", "process.max_file_mb", "9999999", func(*spec.Policy) {}},
		{"environment, comma", "process.allowed_env_names", "PATH, LANG", func(p *spec.Policy) { p.Process.AllowedEnv = []string{"LANG", "PATH"} }},
		{"environment, JSON", "process.allowed_env_names", `["PATH"]`, func(p *spec.Policy) { p.Process.AllowedEnv = []string{"PATH"} }},
		{"no environment", "process.allowed_env_names", "[]", func(p *spec.Policy) { p.Process.AllowedEnv = []string{} }},
		{"root", "files.readonly_root", "true", func(p *spec.Policy) { p.Files.ReadonlyRoot = true }},
		{"proc", "files.readonly_proc", "true", func(p *spec.Policy) { p.Files.ReadonlyProc = true }},
		{"protected", "files.protected_paths", "/work/.hg", func(p *spec.Policy) {
			p.Files.ProtectedPaths = []string{"/work/.git", "/work/.hg"}
		}},
		{"privileged", "files.refuse_privileged", "true", func(p *spec.Policy) { p.Files.RefusePrivileged = true }},
		{"apparmor", "files.require_apparmor", "true", func(p *spec.Policy) { p.Files.RequireAppArmor = true }},
		{"timeout", "timeout_seconds", "30", func(p *spec.Policy) { p.TimeoutSeconds = 30 }},
		{"the default profile", "profile", "ci", func(*spec.Policy) {}},
		{"the digest", "policy_digest", base.Digest(), func(*spec.Policy) {}},
	}
	seen := map[string]bool{}
	for _, tt := range tests {
		seen[tt.key] = true
		t.Run(tt.name, func(t *testing.T) {
			want := base
			tt.change(&want)
			if diff := cmp.Diff(want, resolved(t, h, map[string]string{tt.key: tt.text})); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
		})
	}
	seen["network.allowed_ports"], seen["network.allowed_schemes"], seen["network.proxy_url"] = true, true, true // below, with a mode
	seen["network.dial"], seen["network.ech"] = true, true
	for _, key := range spec.AnnotationKeys() {
		if !seen[key] {
			t.Errorf("annotation %s has no case here", key)
		}
	}
}

// TestResolveNetwork is about values that hang together.
//
// Proves: S-060, S-062, S-063, S-064, S-065, S-068, S-069, S-070, K-44, C-01, C-02.
func TestResolveNetwork(t *testing.T) {
	h := parse(t, roomy)
	tests := []struct {
		name        string
		annotations string // key=text, space between
		want        spec.Network
		code        errcode.Code
		text        string // part of the error
	}{
		{name: "none by default", want: spec.Network{Mode: "none"}},
		{name: "default hosts", annotations: "network.mode=allowlist", want: spec.Network{Mode: "allowlist", AllowedHosts: []string{"pypi.org"}, AllowedPorts: []uint16{80, 443}, AllowedSchemes: []string{"http", "https"}}},
		{
			name:        "hosts within the ceiling",
			annotations: "network.mode=allowlist network.allowed_hosts=PyPI.org.,a.example.org,*.b.example.org,192.0.2.1 network.allowed_ports=8443,80 network.allowed_schemes=https",
			want:        spec.Network{Mode: "allowlist", AllowedHosts: []string{"*.b.example.org", "192.0.2.1", "a.example.org", "pypi.org"}, AllowedPorts: []uint16{80, 8443}, AllowedSchemes: []string{"https"}},
		},
		{name: "no hosts deny all", annotations: "network.mode=allowlist network.allowed_hosts=[]", want: spec.Network{Mode: "allowlist", AllowedPorts: []uint16{80, 443}, AllowedSchemes: []string{"http", "https"}}},
		{name: "ports as JSON", annotations: "network.mode=allowlist network.allowed_ports=[443]", want: spec.Network{Mode: "allowlist", AllowedHosts: []string{"pypi.org"}, AllowedPorts: []uint16{443}, AllowedSchemes: []string{"http", "https"}}},
		{name: "any host where the host names none", annotations: "profile=open network.mode=allowlist network.allowed_hosts=anything.example", want: spec.Network{Mode: "allowlist", AllowedHosts: []string{"anything.example"}, AllowedPorts: []uint16{80, 443}, AllowedSchemes: []string{"http", "https"}}},
		{name: "unrestricted", annotations: "profile=net network.mode=unrestricted network.deny_private_networks=false", want: spec.Network{Mode: "unrestricted", HostNetwork: true}},
		{name: "proxied", annotations: "profile=proxied", want: spec.Network{Mode: "proxy", ProxyURL: "http://proxy.example:3128", AllowedHosts: []string{"a.example"}, AllowedPorts: []uint16{80, 443}, AllowedSchemes: []string{"http", "https"}}},
		{name: "the same proxy", annotations: "profile=proxied network.proxy_url=http://PROXY.example:3128/", want: spec.Network{Mode: "proxy", ProxyURL: "http://proxy.example:3128", AllowedHosts: []string{"a.example"}, AllowedPorts: []uint16{80, 443}, AllowedSchemes: []string{"http", "https"}}},
		{name: "none beneath a proxy", annotations: "profile=proxied network.mode=none", want: spec.Network{Mode: "none"}},
		{name: "allowlist beneath a proxy", annotations: "profile=proxied network.mode=allowlist", want: spec.Network{Mode: "allowlist", AllowedHosts: []string{"a.example"}, AllowedPorts: []uint16{80, 443}, AllowedSchemes: []string{"http", "https"}}},

		{name: "hosts without a mode", annotations: "network.allowed_hosts=pypi.org", code: errcode.AnnotationInvalid, text: "the network mode none has no use for"},
		{name: "ports without a mode", annotations: "network.allowed_ports=443", code: errcode.AnnotationInvalid, text: "network.allowed_ports: saw a value that the network mode none"},
		{name: "hosts and no network", annotations: "network.mode=none network.allowed_hosts=pypi.org", code: errcode.AnnotationInvalid, text: "no use for"},
		{name: "proxy and no network", annotations: "profile=proxied network.mode=none network.proxy_url=http://proxy.example:3128", code: errcode.AnnotationInvalid, text: "no use for"},
		{name: "proxy with an allowlist", annotations: "profile=proxied network.mode=allowlist network.proxy_url=http://proxy.example:3128", code: errcode.AnnotationInvalid, text: "network.proxy_url: saw a value that the network mode allowlist"},
		{name: "mode above the ceiling", annotations: "network.mode=unrestricted", code: errcode.LimitExceeded, text: "saw unrestricted, want one of none, allowlist"},
		{name: "mode between", annotations: "profile=net network.mode=proxy", code: errcode.LimitExceeded, text: "saw proxy, want one of none, allowlist, unrestricted"},
		{name: "host outside", annotations: "network.mode=allowlist network.allowed_hosts=evilpypi.org", code: errcode.LimitExceeded, text: "saw evilpypi.org, want a part of: *.example.org, 192.0.2.1, https://tls.example, pypi.org, tcp://db.example:5432"},
		{name: "host below an exact one", annotations: "network.mode=allowlist network.allowed_hosts=x.pypi.org", code: errcode.LimitExceeded, text: "saw x.pypi.org"},
		{name: "the name a wildcard is below", annotations: "network.mode=allowlist network.allowed_hosts=example.org", code: errcode.LimitExceeded, text: "saw example.org"},
		{name: "wildcard above an exact one", annotations: "network.mode=allowlist network.allowed_hosts=*.pypi.org", code: errcode.LimitExceeded, text: "saw *.pypi.org"},
		{name: "another address", annotations: "network.mode=allowlist network.allowed_hosts=192.0.2.2", code: errcode.LimitExceeded, text: "saw 192.0.2.2"},
		{name: "address under any host", annotations: "profile=open network.mode=allowlist network.allowed_hosts=192.0.2.1", code: errcode.LimitExceeded, text: "any host name, and no IP address"},
		{name: "every host", annotations: "profile=open network.mode=allowlist network.allowed_hosts=*", code: errcode.LimitExceeded, text: "saw *, want a part of: any host name"},
		{name: "every host that the host lists", annotations: "profile=every network.mode=allowlist network.allowed_hosts=*,192.0.2.1", want: list("*", "192.0.2.1")},
		{name: "part of every host", annotations: "profile=every network.mode=allowlist network.allowed_hosts=*.a.org,https://b.org:443", want: list("*.a.org", "https://b.org:443")},
		{name: "tcp under every host", annotations: "profile=every network.mode=allowlist network.allowed_hosts=tcp://a.org:443", code: errcode.LimitExceeded, text: "saw tcp://a.org:443"},
		{name: "tcp where the host lists it", annotations: "network.mode=allowlist network.allowed_hosts=tcp://db.example:5432", want: list("tcp://db.example:5432")},
		{name: "tcp to another port", annotations: "network.mode=allowlist network.allowed_hosts=tcp://db.example:5433", code: errcode.LimitExceeded, text: "saw tcp://db.example:5433"},
		{name: "tcp to a host for TLS", annotations: "network.mode=allowlist network.allowed_hosts=tcp://pypi.org:443", code: errcode.LimitExceeded, text: "saw tcp://pypi.org:443"},
		{name: "tcp under any host", annotations: "profile=open network.mode=allowlist network.allowed_hosts=tcp://a.org:443", code: errcode.LimitExceeded, text: "any host name"},
		{name: "a host's port among the ceiling's", annotations: "network.mode=allowlist network.allowed_hosts=pypi.org:8443", want: list("pypi.org:8443")},
		{name: "a host's port beyond them", annotations: "network.mode=allowlist network.allowed_hosts=pypi.org:22", code: errcode.LimitExceeded, text: "saw pypi.org:22, want a part of"},
		{name: "a port beyond them under any host", annotations: "profile=open network.mode=allowlist network.allowed_hosts=a.org:22", code: errcode.LimitExceeded, text: "ports 80, 443"},
		{name: "scheme of the ceiling", annotations: "network.mode=allowlist network.allowed_hosts=https://tls.example:443", want: list("https://tls.example:443")},
		{name: "other scheme than the ceiling", annotations: "network.mode=allowlist network.allowed_hosts=http://tls.example", code: errcode.LimitExceeded, text: "saw http://tls.example"},
		{name: "any scheme where the ceiling has one", annotations: "network.mode=allowlist network.allowed_hosts=tls.example", code: errcode.LimitExceeded, text: "saw tls.example"},
		{name: "denied hosts", annotations: "network.mode=allowlist network.denied_hosts=x.pypi.org,192.0.2.1", want: with(list("pypi.org"), func(n *spec.Network) { n.DeniedHosts = []string{"192.0.2.1", "x.pypi.org"} })},
		{name: "more denied hosts", annotations: "profile=closed network.mode=allowlist network.denied_hosts=*", want: with(list(), func(n *spec.Network) { n.DeniedHosts, n.Transparent = []string{"*", "*.bad.example"}, false })},
		{name: "no fewer denied hosts", annotations: "profile=closed network.mode=allowlist network.denied_hosts=[]", want: with(list(), func(n *spec.Network) { n.DeniedHosts, n.Transparent = []string{"*.bad.example"}, false })},
		{name: "denied hosts without a mode", annotations: "network.denied_hosts=pypi.org", code: errcode.AnnotationInvalid, text: "the network mode none has no use for"},
		{name: "transparent without a mode", annotations: "network.transparent=true", code: errcode.AnnotationInvalid, text: "the network mode none has no use for"},
		{name: "transparent against the host", annotations: "profile=closed network.mode=allowlist network.transparent=true", code: errcode.PermissionDenied, text: "saw true, want false"},
		{name: "not transparent", annotations: "network.mode=allowlist network.transparent=false", want: with(list("pypi.org"), func(n *spec.Network) { n.Transparent = false })},
		{name: "dial", annotations: "network.mode=allowlist network.dial=engine", want: with(list("pypi.org"), func(n *spec.Network) { n.Dial = spec.DialEngine })},
		{name: "dial from where it may not", annotations: "network.mode=allowlist network.dial=host", code: errcode.LimitExceeded, text: "saw host, want one of engine, auto"},
		{name: "dial without the host's word", annotations: "profile=open network.mode=allowlist network.dial=engine", code: errcode.LimitExceeded, text: "saw engine, want one of auto"},
		{name: "ech", annotations: "network.mode=allowlist network.ech=outer", want: with(list("pypi.org"), func(n *spec.Network) { n.ECH = "outer" })},
		{name: "ech refused", annotations: "profile=open network.mode=allowlist network.ech=outer", code: errcode.LimitExceeded, text: "saw outer, want refuse or stricter"},
		{name: "too many connections", annotations: "network.mode=allowlist network.max_connections=257", code: errcode.LimitExceeded, text: "saw 257, want at most 256"},
		{name: "port outside", annotations: "network.mode=allowlist network.allowed_ports=22", code: errcode.LimitExceeded, text: "saw 22, want a part of: 80, 443, 8443"},
		{name: "private networks", annotations: "network.deny_private_networks=false", code: errcode.LimitExceeded, text: "saw false, want true"},
		{name: "unrestricted without private networks", annotations: "profile=net network.mode=unrestricted", code: errcode.AnnotationInvalid, text: "unrestricted reaches private networks too"},
		{name: "unrestricted with hosts", annotations: "profile=net network.mode=unrestricted network.deny_private_networks=false network.allowed_hosts=a.org", code: errcode.AnnotationInvalid, text: "the network mode unrestricted has no use for"},
		{name: "another proxy", annotations: "profile=proxied network.proxy_url=http://other.example:3128", code: errcode.PermissionDenied, text: "another value than the host's"},
		{name: "a proxy of the bundle's", annotations: "profile=net network.mode=allowlist network.proxy_url=http://other.example:3128", code: errcode.PermissionDenied, text: "another value than the host's"},
		{name: "every host by a proxy", annotations: "profile=proxied network.allowed_hosts=[]", code: errcode.LimitExceeded, text: "saw no hosts, which in the mode proxy is every host"},
		{name: "every host by a proxy that it chose", annotations: "profile=late network.mode=proxy", code: errcode.LimitExceeded, text: "sage.sandbox.network.allowed_hosts: saw no hosts, which in the mode proxy is every host"},
		{name: "its hosts by a proxy that it chose", annotations: "profile=late network.mode=proxy network.allowed_hosts=a.example", want: spec.Network{Mode: "proxy", ProxyURL: "http://proxy.example:3128", AllowedHosts: []string{"a.example"}, AllowedPorts: []uint16{80, 443}, AllowedSchemes: []string{"http", "https"}}},
		{name: "listen", annotations: "network.listen=any", code: errcode.LimitExceeded, text: "saw any, want loopback or stricter"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := spec.Resolve(h, bundle(pairs(tt.annotations)))
			if tt.code != "" {
				checkCode(t, err, tt.code, tt.text)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := r.Policy.Network
			if tt.want.AllowedHosts == nil {
				tt.want.AllowedHosts = []string{}
			}
			if tt.want.AllowedPorts == nil {
				tt.want.AllowedPorts, tt.want.AllowedSchemes = []uint16{}, []string{}
			}
			tt.want = withDefaults(tt.want)
			tt.want.DenyPrivateNetworks = got.Mode != spec.NetworkUnrestricted
			tt.want.MaxWallTimeSeconds, tt.want.MaxRequestBodyBytes, tt.want.MaxResponseBytes = 600, 64<<20, 1<<30
			tt.want.Listen, tt.want.UnixSockets = spec.ListenLoopback, true
			if strings.HasPrefix(tt.annotations, "profile=net") {
				tt.want.HostNetwork = true
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("network (-want +got):\n%s", diff)
			}
		})
	}
}

// list is the network of the mode allowlist with some hosts.
func list(hosts ...string) spec.Network {
	return spec.Network{Mode: "allowlist", AllowedHosts: hosts, AllowedPorts: []uint16{80, 443}, AllowedSchemes: []string{"http", "https"}}
}

// with changes what a profile's defaults would be.
func with(n spec.Network, change func(*spec.Network)) spec.Network {
	n = withDefaults(n)
	change(&n)
	return n
}

// withDefaults fills in what the profile agent has where nobody says anything.
func withDefaults(n spec.Network) spec.Network {
	if n.DeniedHosts != nil {
		return n
	}
	n.DeniedHosts, n.Nameservers, n.Reachable = []string{}, []string{}, []string{}
	n.MaxConnections, n.MaxActive = 256, 128
	if n.Mode == spec.NetworkAllowlist || n.Mode == spec.NetworkProxy {
		n.Transparent, n.Dial, n.ECH, n.JavaToolOptions = true, spec.DialAuto, "refuse", true
	}
	return n
}

func pairs(text string) map[string]string {
	out := map[string]string{}
	for pair := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(pair, "=")
		out[key] = value
	}
	return out
}

func checkCode(t *testing.T, err error, code errcode.Code, text string) {
	t.Helper()
	if got := errcode.Of(err); got != code {
		t.Fatalf("got %v with code %q, want code %q", err, got, code)
	}
	if got := err.Error(); !strings.Contains(got, text) || strings.Contains(got, "\n") || strings.Contains(got, "hunter2") {
		t.Errorf("got %q, want one line with %q", got, text)
	}
}

// TestResolveLoosening: what a bundle may not have more of.
//
// Proves: C-10, C-14, G-27.
func TestResolveLoosening(t *testing.T) {
	sage, ci := spec.BuiltinHost(), parse(t, roomy)
	tests := []struct {
		name      string
		host      *spec.Host
		key, text string
		code      errcode.Code
		want      string
	}{
		{"cpu", sage, "resources.cpu_percent", "101", errcode.LimitExceeded, "saw 101 %, want at most 100 %"},
		{"memory", sage, "resources.memory_mb", "1025", errcode.LimitExceeded, "saw 1025 MiB, want at most 1024 MiB"},
		{"disk", sage, "resources.disk_mb", "4097", errcode.LimitExceeded, "saw 4097 MiB, want at most 4096 MiB"},
		{"processes", sage, "resources.max_processes", "65", errcode.LimitExceeded, "saw 65, want at most 64"},
		{"hard limits", sage, "resources.require_hard_limits", "false", errcode.PermissionDenied, "saw false, want true"},
		{"mode", sage, "network.mode", "allowlist", errcode.LimitExceeded, "saw allowlist, want one of none"},
		{"listen", sage, "network.listen", "loopback", errcode.LimitExceeded, "saw loopback, want deny or stricter"},
		{"unix sockets", sage, "network.unix_sockets", "true", errcode.PermissionDenied, "saw true, want false"},
		{"time", sage, "network.max_wall_time_seconds", "31", errcode.LimitExceeded, "saw 31 s, want at most 30 s"},
		{"capability", sage, "process.capabilities", "CHOWN", errcode.PermissionDenied, "saw CAP_CHOWN, want a part of: none"},
		{"one capability more", ci, "process.capabilities", "CHOWN,KILL,SETUID", errcode.PermissionDenied, "saw CAP_SETUID, want a part of: CAP_CHOWN, CAP_KILL"},
		{"ptrace", sage, "process.allow_ptrace", "true", errcode.PermissionDenied, "saw true, want false"},
		{"open files", sage, "process.max_open_files", "1025", errcode.LimitExceeded, "saw 1025, want at most 1024"},
		{"environment", ci, "process.allowed_env_names", "PATH,LD_PRELOAD", errcode.PermissionDenied, "saw LD_PRELOAD, want a part of: LANG, PATH, TERM"},
		{"root", sage, "files.readonly_root", "false", errcode.PermissionDenied, "saw false, want true"},
		{"proc", sage, "files.readonly_proc", "false", errcode.PermissionDenied, "saw false, want true"},
		{"privileged under hard limits", sage, "files.refuse_privileged", "false", errcode.PermissionDenied, "saw false, want true"},
		{"output", parse(t, profile("{limits: {process: {max_output_bytes: 100}}}")+"default_profile: ci\n"), "process.max_output_bytes", "101", errcode.LimitExceeded, "saw 101 bytes, want at most 100 bytes"},
		{"timeout", ci, "timeout_seconds", "3601", errcode.LimitExceeded, "saw 3601 s, want at most 3600 s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := spec.Resolve(tt.host, bundle(map[string]string{tt.key: tt.text}))
			checkCode(t, err, tt.code, "sage.sandbox."+tt.key+": "+tt.want)
		})
	}
}

// TestResolveMalformed: every number and every flag, in every wrong form.
//
// Proves: S-009, S-015, A-036, A-037, G-26, K-01.
func TestResolveMalformed(t *testing.T) {
	h := parse(t, roomy)
	numbers := []string{"", "0", "-1", "-0", "+1", "inf", "Inf", "+Inf", "nan", "NaN", "true", "True", "64.0", "1e2", "0x40", "064", "6 4", " 64", "64 ", "1_0", "99999999999999999999", "9223372036854775807", "٦٤", "64MiB", "[64]", `"64"`, "null"}
	flags := []string{"", "True", "TRUE", "yes", "1", "0", " true", "true ", "null", "[true]"}
	lists := []string{"", ",", "[", `["a"`, `["a"] x`, `[1.5]`, `[null]`, `{"a":1}`, `["",""]`, "a,,b", "[[]]"}
	bad := map[string][]string{
		"resources.cpu_percent": numbers, "resources.memory_mb": numbers, "resources.disk_mb": numbers, "resources.max_processes": append(slices.Clone(numbers), "1", "3"),
		"network.max_wall_time_seconds": numbers, "network.max_request_body_bytes": numbers, "network.max_response_bytes": numbers,
		"network.max_connections": append(slices.Clone(numbers), "16385"), "network.max_active": numbers, "network.max_total_bytes": numbers,
		"network.transparent": flags, "network.dial": {"", "Host", "here"}, "network.ech": {"", "true", "allow"},
		"network.denied_hosts":   append(slices.Clone(lists), "a b", "*.org", "127.1", "192.0.2.1:80", "https://192.0.2.1", "ssh://a.org"),
		"process.max_open_files": numbers, "process.max_file_mb": numbers, "process.max_output_bytes": numbers, "timeout_seconds": numbers,
		"resources.require_hard_limits": flags, "network.deny_private_networks": flags, "network.unix_sockets": flags, "process.allow_ptrace": flags,
		"process.allow_no_randomize": flags, "process.require_non_root": flags, "files.readonly_root": flags, "files.readonly_proc": flags,
		"files.refuse_privileged": flags, "files.require_apparmor": flags,
		"network.allowed_hosts":   append(slices.Clone(lists), "[1]", "a_b.org", "a b", "ssh://a.org", "http://a.org/", "a.org:", "a.org:0443", "tcp://a.org", "tcp://*:1", "*.org", "127.1", "0x7f.1", "a.org\x00.evil"),
		"network.allowed_ports":   append(slices.Clone(lists), "0", "65536", "-1", "443.0", `["443"]`, "[65536]", "[-1]", "http", "1-2", "08"),
		"network.allowed_schemes": append(slices.Clone(lists), "ftp", "HTTP"), "process.capabilities": append(slices.Clone(lists), "chown", "ALL", "SYS_ADMIN"),
		"process.allowed_env_names": append(slices.Clone(lists), "A-B", "1A", "*", "A=hunter2"),
		"files.protected_paths":     append(slices.Clone(lists), "rel", "/", "/../x", "/usr/x", "/a//b"),
		"network.mode":              {"", "None", "host", "allow-list", "none "}, "network.listen": {"", "lo", "Deny"},
		"network.proxy_url": {"", "proxy", "socks5://p.example:1", "http://u:hunter2@p.example", "http://p.example/x"},
		"policy_digest":     {"", "x", strings.Repeat("g", 64), strings.Repeat("A", 64), strings.Repeat("a", 63)},
	}
	for _, key := range spec.AnnotationKeys() {
		if bad[key] == nil && key != "profile" {
			t.Errorf("annotation %s has no malformed values here", key)
		}
	}
	for key, texts := range bad {
		for _, text := range texts {
			t.Run(key+"="+text, func(t *testing.T) {
				_, err := spec.Resolve(h, bundle(map[string]string{key: text}))
				checkCode(t, err, errcode.AnnotationInvalid, "sage.sandbox."+key+": ")
			})
		}
	}
	_, err := spec.Resolve(h, bundle(map[string]string{"files.protected_paths": strings.Repeat("/a,", 1024) + "/a"}))
	checkCode(t, err, errcode.AnnotationInvalid, "saw 1025 entries, want at most 1024")
}

// TestResolveUnknown: a key that nobody reads is a limit that nobody enforces.
//
// Proves: S-015, S-072, S-073, G-26, G-27.
func TestResolveUnknown(t *testing.T) {
	tests := map[string]string{
		"sage.sandbox.network.moed":            "sage.sandbox.network.mode",
		"sage.sandbox.memory_mb":               "sage.sandbox.resources.memory_mb",
		"sage.sandbox.":                        "sage.sandbox.profile",
		"sage.sandbox":                         "sage.sandbox.profile",
		"sage.network.mode":                    "sage.sandbox.network.mode",
		"sage.sandbx.profile":                  "sage.sandbox.profile",
		"Sage.sandbox.profile":                 "sage.sandbox.profile",
		"SAGE.SANDBOX.PROFILE":                 "sage.sandbox.",
		"sage.sandbox.Profile":                 "sage.sandbox.profile",
		"sage.sandbox.profile ":                "sage.sandbox.profile",
		"sage.sandbox.network.modes":           "sage.sandbox.network.mode",
		"sage.sandbox.network.host_network":    "sage.sandbox.network.",
		"sage.sandbox.network.allow_listen":    "sage.sandbox.network.",
		"sage.sandbox.network.allowed_methods": "sage.sandbox.network.allowed_",
		"sage.sandbox.process.force_env":       "sage.sandbox.process.",
		"sage.sandbox.write_paths":             "sage.sandbox.",
		"sage.sandbox.\n":                      "sage.sandbox.",
		"sage.x":                               "sage.sandbox.",
	}
	for key, nearest := range tests {
		t.Run(key, func(t *testing.T) {
			_, err := spec.Resolve(spec.BuiltinHost(), &specs.Spec{Annotations: map[string]string{key: "x"}})
			checkCode(t, err, errcode.AnnotationInvalid, "the nearest that there is: "+nearest)
		})
	}
	for _, key := range []string{"", "sage", "sagemath.org/x", "io.kubernetes.cri.container-name", "org.sage.sandbox.profile"} {
		if _, err := spec.Resolve(spec.BuiltinHost(), &specs.Spec{Annotations: map[string]string{key: "x"}}); err != nil {
			t.Errorf("annotation %q, which is not for sage: got %v", key, err)
		}
	}
	_, err := spec.Resolve(spec.BuiltinHost(), &specs.Spec{Annotations: map[string]string{"sage." + strings.Repeat("x", 1<<20): "x"}})
	if checkCode(t, err, errcode.AnnotationInvalid, "unknown key"); len(err.Error()) > 400 {
		t.Errorf("error has %d bytes, want some line's worth", len(err.Error()))
	}
}

// Proves: E-002, E-004, G-27.
func TestResolveProfile(t *testing.T) {
	h := parse(t, roomy)
	for _, name := range []string{"", "none", "compat", "hidden", "CI", "Agent", "agent "} {
		t.Run("refuses "+name, func(t *testing.T) {
			_, err := spec.Resolve(h, bundle(map[string]string{"profile": name}))
			checkCode(t, err, errcode.ProfileUnavailable, "want one of agent, closed, every, late, net, open, proxied")
		})
	}
	if got := resolved(t, h, map[string]string{"profile": "agent"}).Profile; got != "agent" {
		t.Errorf("got profile %q, want agent", got)
	}
	for _, name := range []string{"sage", "agent", "service", "superagent", "electric"} {
		if got := resolved(t, spec.BuiltinHost(), map[string]string{"profile": name}).Profile; got != name {
			t.Errorf("without a file: got profile %q, want %s", got, name)
		}
	}
	few := parse(t, "version: 1\nallowed_annotations: [network.mode, profile]\n")
	resolved(t, few, map[string]string{"network.mode": "none", "profile": "agent"})
	_, err := spec.Resolve(few, bundle(map[string]string{"resources.memory_mb": "1"}))
	checkCode(t, err, errcode.AnnotationInvalid, "sage.sandbox.resources.memory_mb: this host lets bundles carry only: network.mode, profile")
	none := parse(t, "version: 1\nallowed_annotations: []\n")
	_, err = spec.Resolve(none, bundle(map[string]string{"profile": "agent"}))
	checkCode(t, err, errcode.AnnotationInvalid, "carry only: none")
}

// TestResolveCompat: no policy, and nobody led to believe in one.
func TestResolveCompat(t *testing.T) {
	h := parse(t, "version: 1\ndefault_profile: compat\nlinux_execution_uid: 1\nlinux_execution_gid: 1\n")
	r, err := spec.Resolve(h, bundle(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := spec.Resolution{
		Policy:  spec.Policy{Profile: "compat", Compat: true},
		Reasons: []spec.Reason{{Field: "profile", Value: "compat", Source: "default_profile"}},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("resolution (-want +got):\n%s", diff)
	}
	for _, annotations := range []map[string]string{{"network.mode": "none"}, {"policy_digest": r.Policy.Digest()}} {
		_, err = spec.Resolve(h, bundle(annotations))
		checkCode(t, err, errcode.AnnotationInvalid, "under the profile compat")
	}
	_, err = spec.Resolve(h, bundle(map[string]string{"profile": "compat"}))
	checkCode(t, err, errcode.ProfileUnavailable, "want one of agent")
	if got := resolved(t, h, map[string]string{"profile": "agent"}); got.Compat || got.Profile != "agent" {
		t.Errorf("a bundle that asks for a policy: got %+v", got)
	}
}

// Proves: S-020, C-07, E-022.
func TestResolveDigest(t *testing.T) {
	h := parse(t, roomy)
	a := resolved(t, h, map[string]string{"resources.memory_mb": "512"})
	if b := resolved(t, h, map[string]string{"resources.memory_mb": "512", "policy_digest": a.Digest()}); b.Digest() != a.Digest() {
		t.Errorf("got digest %s, want %s", b.Digest(), a.Digest())
	}
	_, err := spec.Resolve(h, bundle(map[string]string{"policy_digest": a.Digest()}))
	checkCode(t, err, errcode.PolicyStale, "this host's policy for the bundle has")
	changed := parse(t, strings.Replace(roomy, "pypi.org]}", "files.example.org]}", 1))
	_, err = spec.Resolve(changed, bundle(map[string]string{"resources.memory_mb": "512", "policy_digest": a.Digest(), "network.mode": "none"}))
	if err != nil {
		t.Errorf("hosts that mode none has no use for are no part of the policy: got %v", err)
	}
	none := resolved(t, h, map[string]string{"process.allowed_env_names": "[]"})
	anyEnv := resolved(t, parse(t, strings.Replace(roomy, "allowed_env_names: [LANG, PATH, TERM]", "allow_ptrace: true", 1)), nil)
	if none.Process.AllowedEnv == nil || anyEnv.Process.AllowedEnv != nil {
		t.Fatalf("got %v and %v, want none and any variables", none.Process.AllowedEnv, anyEnv.Process.AllowedEnv)
	}
	if none.Digest() == anyEnv.Digest() {
		t.Error("no variables and any variables have one digest")
	}
}

// The container that holds a pod's namespaces has the pod's annotations, and no
// proxy by them; what they ask for is held to the ceilings all the same.
func TestResolvePause(t *testing.T) {
	h := parse(t, roomy)
	asks := map[string]string{"network.mode": "allowlist", "network.allowed_hosts": "pypi.org", "policy_digest": strings.Repeat("0", 64)}
	for _, key := range spec.PauseAnnotations {
		s := bundle(asks)
		s.Annotations[key] = "sandbox"
		r, err := spec.Resolve(h, s)
		if n := r.Policy.Network; err != nil || n.Mode != spec.NetworkNone || len(n.AllowedHosts) > 0 {
			t.Errorf("%s: got %+v, %v; want the mode none and no hosts", key, n, err)
		}
		if got := reasons(r)["network.mode"]; got.Value != "none" || !strings.Contains(got.Source, "pod") {
			t.Errorf("%s: got reason %+v, want one that tells of pods", key, got)
		}
		s.Annotations[spec.AnnotationPrefix+"network.allowed_hosts"] = "elsewhere.example"
		_, err = spec.Resolve(h, s)
		checkCode(t, err, errcode.LimitExceeded, "allowed_hosts")
		s = bundle(asks)
		s.Annotations[key] = "container"
		_, err = spec.Resolve(h, s)
		checkCode(t, err, errcode.PolicyStale, "policy_digest")
	}
	open := bundle(map[string]string{"profile": "net", "network.mode": "unrestricted", "network.deny_private_networks": "false"})
	open.Annotations[spec.PauseAnnotations[0]] = "sandbox"
	if r, err := spec.Resolve(h, open); err != nil || r.Policy.Network.Mode == spec.NetworkNone {
		t.Errorf("another mode: got %s, %v; want it as it is", r.Policy.Network.Mode, err)
	}
}

// TestResolveTimeout: a ceiling without a default of its own is the default.
func TestResolveTimeout(t *testing.T) {
	h := parse(t, roomy)
	r, err := spec.Resolve(h, bundle(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := spec.Reason{Field: "timeout_seconds", Value: "3600 s", Source: "profile ci: limit", Ceiling: "3600 s"}
	if diff := cmp.Diff(want, reasons(r)["timeout_seconds"]); diff != "" || r.Policy.TimeoutSeconds != 3600 {
		t.Errorf("got %d s, reason (-want +got):\n%s", r.Policy.TimeoutSeconds, diff)
	}
	if got := resolved(t, h, map[string]string{"profile": "agent"}).TimeoutSeconds; got != 0 {
		t.Errorf("agent: got %d s, want none", got)
	}
}
