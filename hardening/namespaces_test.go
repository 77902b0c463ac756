package hardening

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/hardening/seccomp"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// lacks takes a namespace out of the bundle, as an engine does for "host".
func lacks(types ...specs.LinuxNamespaceType) func(*specs.Spec) {
	return func(s *specs.Spec) {
		s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, func(ns specs.LinuxNamespace) bool { return slices.Contains(types, ns.Type) })
	}
}

// joins replaces one by another container's.
func joins(t specs.LinuxNamespaceType) func(*specs.Spec) {
	return func(s *specs.Spec) {
		lacks(t)(s)
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: t, Path: "/proc/1/ns/x"})
	}
}

func leads(t specs.LinuxNamespaceType, f NamespaceFacts) func(*Facts) {
	return func(to *Facts) { to.Namespaces[t] = f }
}

// Proves: S-100, E-028, G-20.
func TestNamespaces(t *testing.T) {
	hostNet := func(p *spec.Policy) { p.Network.HostNetwork = true }
	shared := func(p *spec.Policy) { p.Files.SharedNamespaces = []string{"network", "ipc", "uts", "pid"} }
	has := func(types ...string) func(*testing.T, Result) {
		return func(t *testing.T, r Result) {
			t.Helper()
			if got := ownNamespaces(r.Spec); !slices.Equal(got, types) {
				t.Errorf("got %v, want %v", got, types)
			}
		}
	}
	runCases(t, strict, []outcome{
		{name: "all of them", check: has("cgroup", "ipc", "mnt", "net", "pid", "uts")},
		{name: "--pid=host", bundle: lacks("pid"), denied: "saw no pid namespace"},
		{name: "--ipc=host", bundle: lacks("ipc"), denied: "saw no ipc namespace"},
		{name: "--uts=host", bundle: lacks("uts"), denied: "saw no uts namespace"},
		{name: "no mount namespace", bundle: lacks("mount"), denied: "saw no mount namespace"},
		{name: "--cgroupns=host", bundle: lacks("cgroup"), check: func(t *testing.T, r Result) {
			has("cgroup", "ipc", "mnt", "net", "pid", "uts")(t, r)
			wantChange(t, r, "linux.namespaces", Added)
		}},
		{name: "--network=host", bundle: lacks("network"), denied: "saw no network namespace, want one: set limits.network.host_network"},
		{name: "--network=host, allowed", bundle: lacks("network"), policy: hostNet, check: has("cgroup", "ipc", "mnt", "pid", "uts")},
		{name: "a pod on the host's network", bundle: lacks("network", "uts"), policy: hostNet, check: has("cgroup", "ipc", "mnt", "pid", "uts")},
		{name: "--network=container:X", bundle: joins("network"), denied: "add network to shared_namespaces"},
		{name: "--pid=container:X", bundle: joins("pid"), denied: "add pid to shared_namespaces"},
		{name: "--network=container:X, listed", bundle: joins("network"), policy: shared, check: has("cgroup", "ipc", "mnt", "net", "pid", "uts")},
		{name: "by path, the host's", bundle: joins("ipc"), policy: shared, facts: leads("ipc", NamespaceFacts{Host: true, Kind: "ipc"}), denied: "saw the ipc namespace of the host"},
		{name: "by path, of another type", bundle: joins("network"), policy: shared, facts: leads("network", NamespaceFacts{Kind: "mnt"}), denied: `saw a namespace of type "mnt", want net`},
		{name: "by path, not looked at", bundle: joins("uts"), policy: shared, facts: func(f *Facts) { f.Namespaces = nil }, denied: "nothing is known of the uts namespace"},
		{name: "by path, a mount namespace", bundle: joins("mount"), policy: shared, denied: "saw a path for the mount namespace"},
		{name: "by path, a cgroup namespace", bundle: joins("cgroup"), policy: shared, denied: "saw a path for the cgroup namespace"},
		{name: "by path, a user namespace", bundle: joins("user"), policy: shared, denied: "saw a path for the user namespace"},
		{name: "by path, a time namespace", bundle: joins("time"), policy: shared, denied: "saw a path for the time namespace"},
		// Docker 29 gives one to every container.
		{name: "a time namespace of its own", bundle: func(s *specs.Spec) {
			s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: "time"})
		}, check: has("cgroup", "ipc", "mnt", "net", "pid", "uts")},
		{name: "time offsets", bundle: func(s *specs.Spec) {
			s.Linux.TimeOffsets = map[string]specs.LinuxTimeOffset{"boottime": {Secs: 1}}
		}, denied: "linux.timeOffsets"},
		{name: "unknown", bundle: joins("net"), denied: `saw type "net"`, code: errcode.BundleInvalid},
		{name: "twice", bundle: func(s *specs.Spec) {
			s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: "pid"})
		}, denied: "saw pid twice", code: errcode.BundleInvalid},
		{name: "mappings without a user namespace", bundle: func(s *specs.Spec) {
			s.Linux.UIDMappings = []specs.LinuxIDMapping{{Size: 1}}
		}, denied: "linux.uidMappings", code: errcode.BundleInvalid},
		{name: "a name for another's namespace", policy: shared, bundle: func(s *specs.Spec) {
			joins("uts")(s)
			s.Hostname, s.Domainname = "a", "b"
		}, check: func(t *testing.T, r Result) {
			if r.Spec.Hostname != "" || r.Spec.Domainname != "" {
				t.Error("got a name, want none: it would rename the other container")
			}
			wantChange(t, r, "hostname", Dropped)
		}},
		{name: "a name of its own", bundle: func(s *specs.Spec) { s.Hostname = "a" }, check: func(t *testing.T, r Result) {
			if r.Spec.Hostname != "a" {
				t.Errorf("got %q, want it kept", r.Spec.Hostname)
			}
		}},
	})
}

// Proves: S-109, G-19, G-20.
func TestSockets(t *testing.T) {
	const none, inet, unix, both = seccomp.NetworkNone, seccomp.NetworkInet, seccomp.NetworkUnix, seccomp.NetworkInetUnix
	data := func(s *specs.Spec) {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: "/data", Source: "/srv/data", Options: []string{"rbind", "ro"}})
	}
	file := func(s *specs.Spec) {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: "/data", Source: "/srv/data.file", Options: []string{"bind"}})
	}
	for _, c := range []struct {
		name   string
		bundle func(*specs.Spec)
		policy func(*spec.Policy)
		want   seccomp.Network
	}{
		{name: "agent, mode none", want: both},
		{name: "sage, mode none", policy: func(p *spec.Policy) { p.Network = strict().Network }, want: none},
		{name: "mode none, nobody may listen", policy: func(p *spec.Policy) { p.Network.Listen = spec.ListenDeny }, want: unix},
		{name: "a mode that there is not, shared", bundle: joins("network"), policy: func(p *spec.Policy) { p.Network.Mode = "free" }, want: none},
		{name: "no mode, nobody may listen", policy: func(p *spec.Policy) { p.Network = spec.Network{} }, want: none},
		{name: "a directory that the host lists twice", bundle: mounts(bind("/srv/work/x", "/data")), policy: func(p *spec.Policy) { p.Files.ReadPaths = []string{"/srv/work"} }, want: inet},
		{name: "mode none, shared", bundle: joins("network"), want: none},
		{name: "mode none, the host's", bundle: lacks("network"), policy: func(p *spec.Policy) { p.Network.HostNetwork = true }, want: none},
		{name: "allowlist", policy: func(p *spec.Policy) { p.Network.Mode = spec.NetworkAllowlist }, want: both},
		{name: "allowlist, shared", bundle: joins("network"), policy: func(p *spec.Policy) { p.Network.Mode = spec.NetworkAllowlist }, want: inet},
		{name: "unrestricted, the host's", bundle: lacks("network"), policy: func(p *spec.Policy) {
			p.Network.HostNetwork, p.Network.Mode = true, spec.NetworkUnrestricted
		}, want: inet},
		{name: "proxy, the host's", bundle: lacks("network"), policy: func(p *spec.Policy) {
			p.Network.HostNetwork, p.Network.Mode = true, spec.NetworkProxy
		}, want: inet},
		{name: "a shared pid namespace", bundle: joins("pid"), want: inet},
		{name: "a directory of the host", bundle: data, want: inet},
		{name: "a directory that the host lists", bundle: data, policy: func(p *spec.Policy) { p.Files.ReadPaths = []string{"/srv/data"} }, want: both},
		{name: "a file of the host", bundle: file, want: both},
		{name: "not in the policy", policy: func(p *spec.Policy) { p.Network.UnixSockets = false }, want: inet},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := outcome{bundle: c.bundle, policy: c.policy, facts: func(f *Facts) {
				f.ReadPaths = []MountFacts{{Kind: SourceDirectory, Source: "/srv/data"}}
			}}
			p := loose()
			if c.policy != nil {
				c.policy(&p)
			}
			if len(p.Files.ReadPaths) == 0 {
				o.facts = nil
			}
			o.check = func(t *testing.T, r Result) {
				if got := r.Network.Allowed; got != c.want {
					t.Errorf("got %v (%+v), want %v", got, r.Network, c.want)
				}
				if (r.Network.NoInet == "") != (c.want == inet || c.want == both) {
					t.Errorf("got reason %q, want one if and only if the internet is closed", r.Network.NoInet)
				}
			}
			o.run(t, loose())
		})
	}
}

// Proves: S-105.
func TestLayer2(t *testing.T) {
	s := bundle()
	for _, c := range []struct {
		name   string
		policy func() spec.Policy
		want   seccomp.Policy
	}{
		{"strict", strict, seccomp.Policy{Arch: seccomp.AMD64}},
		{"loose", loose, seccomp.Policy{
			Arch: seccomp.AMD64, Network: seccomp.NetworkInetUnix, Listen: seccomp.ListenLoopback, AllowPtrace: true, AllowNoRandomize: true,
		}},
	} {
		r, err := Apply(s, c.policy(), plainFacts(s))
		if err != nil {
			t.Fatal(err)
		}
		want, err := seccomp.Build(c.want)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Filter.Digest(); got != want.Digest() {
			t.Errorf("%s: got another filter, want that of %v", c.name, c.want)
		}
	}
	f := plainFacts(s)
	f.Arch = "riscv64"
	_, err := Apply(s, strict(), f)
	outcome{denied: "riscv64", code: errcode.ArchUnsupported}.wantError(t, err)
}

func TestListen(t *testing.T) {
	got := []seccomp.Listen{listen(spec.ListenDeny), listen(spec.ListenLoopback), listen(spec.ListenAny), listen("everything")}
	want := []seccomp.Listen{seccomp.ListenDeny, seccomp.ListenLoopback, seccomp.ListenAny, seccomp.ListenDeny}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("got, want: %s", diff)
	}
}
