package hardening

import (
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// Proves: S-045.
func TestHooks(t *testing.T) {
	hook := func(set func(h *specs.Hooks, list []specs.Hook)) func(*specs.Spec) {
		return func(s *specs.Spec) {
			s.Hooks = &specs.Hooks{}
			set(s.Hooks, []specs.Hook{{Path: "/usr/local/bin/nerdctl"}, {Path: "/evil"}})
		}
	}
	runCases(t, loose, []outcome{
		{name: "prestart", bundle: hook(func(h *specs.Hooks, l []specs.Hook) { h.Prestart = l }), denied: `hooks.prestart[1]: saw "/evil", want a program that hooks in the host's file lists`}, //nolint:staticcheck // deprecated, and still sent
		{name: "createRuntime", bundle: hook(func(h *specs.Hooks, l []specs.Hook) { h.CreateRuntime = l }), denied: "hooks.createRuntime[1]"},
		{name: "createContainer", bundle: hook(func(h *specs.Hooks, l []specs.Hook) { h.CreateContainer = l }), denied: "hooks.createContainer[1]"},
		{name: "startContainer", bundle: hook(func(h *specs.Hooks, l []specs.Hook) { h.StartContainer = l }), denied: "hooks.startContainer[1]"},
		{name: "poststart", bundle: hook(func(h *specs.Hooks, l []specs.Hook) { h.Poststart = l }), denied: "hooks.poststart[1]"},
		{name: "poststop", bundle: hook(func(h *specs.Hooks, l []specs.Hook) { h.Poststop = l }), denied: "hooks.poststop[1]"},
		{name: "listed, with its caller's environment", bundle: func(s *specs.Spec) {
			s.Hooks = &specs.Hooks{CreateRuntime: []specs.Hook{{
				Path: "/usr/local/bin/nerdctl", Args: []string{"nerdctl", "internal"},
				Env: []string{"HOME=/root", "LD_PRELOAD=/evil.so", "ENVIRONMENT=x", "PYTHONUNBUFFERED=1", "BASH_ENV=/evil"},
			}}}
		}, check: func(t *testing.T, r Result) {
			want := []string{"HOME=/root", "ENVIRONMENT=x", "PYTHONUNBUFFERED=1"}
			if got := r.Spec.Hooks.CreateRuntime[0].Env; !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			wantChange(t, r, "hooks.createRuntime[0].env", Dropped)
		}},
	})
	s := loadBundle(t, "nerdctl")
	_, err := Apply(s, strict(), plainFacts(s))
	outcome{denied: `hooks.createRuntime[0]: saw "/usr/local/bin/nerdctl"`}.wantError(t, err)
}

func TestSysctls(t *testing.T) {
	set := func(key, value string) func(*specs.Spec) {
		return func(s *specs.Spec) { s.Linux.Sysctl = map[string]string{key: value} }
	}
	hostNet := func(p *spec.Policy) { p.Network.HostNetwork = true }
	const denied, unknownOne = "linux.sysctl: saw", "want one of those that sage knows"
	runCases(t, loose, []outcome{
		{name: "as Docker sends by default", bundle: set("net.ipv4.ping_group_range", "0 2147483647")},
		{name: "with slashes", bundle: set("net/ipv4/ip_unprivileged_port_start", "0")},
		{name: "ipc", bundle: set("kernel.shm_rmid_forced", "1")},
		{name: "ipc, queues", bundle: set("fs.mqueue.msg_max", "10")},
		{name: "uts", bundle: set("kernel.domainname", "example.org")},
		{name: "route_localnet", bundle: set("net.ipv4.conf.all.route_localnet", "1"), denied: unknownOne},
		{name: "route_localnet with slashes", bundle: set("net/ipv4/conf/eth0/route_localnet", "1"), denied: unknownOne},
		{name: "ip_forward", bundle: set("net.ipv4.ip_forward", "1"), denied: unknownOne},
		{name: "accept_ra", bundle: set("net.ipv6.conf.all.accept_ra", "2"), denied: unknownOne},
		{name: "arp_ignore", bundle: set("net.ipv4.conf.all.arp_ignore", "1"), denied: unknownOne},
		{name: "the host's kernel", bundle: set("kernel.core_pattern", "|/evil"), denied: unknownOne},
		{name: "the host's name", bundle: set("kernel.hostname", "x"), denied: unknownOne},
		{name: "user namespaces", bundle: set("user.max_user_namespaces", "1000"), denied: unknownOne},
		{name: "a path", bundle: set("net.ipv4.tcp_rmem/../../../kernel/core_pattern", "1"), denied: unknownOne},
		{name: "a value that is no number", bundle: set("net.core.somaxconn", "1\nx"), denied: "want only numbers", code: errcode.BundleInvalid},
		{name: "the network of a pod", bundle: both(set("net.core.somaxconn", "1"), joins("network"))},
		{name: "the network of the host", bundle: both(set("net.core.somaxconn", "1"), lacks("network")), policy: hostNet, denied: denied},
		{name: "the ipc of a pod", bundle: both(set("kernel.shmmax", "1"), joins("ipc")), denied: denied},
	})
}

// Proves: S-105, S-107.
func TestLayer1(t *testing.T) {
	seccomp := func(v specs.LinuxSeccomp) func(*specs.Spec) { return func(s *specs.Spec) { s.Linux.Seccomp = &v } }
	rule := func(a specs.LinuxSeccompAction) func(*specs.Spec) {
		return seccomp(specs.LinuxSeccomp{DefaultAction: specs.ActErrno, Syscalls: []specs.LinuxSyscall{{Names: []string{"read"}, Action: specs.ActAllow}, {Names: []string{"prctl"}, Action: a}}})
	}
	flags := func(list ...specs.LinuxSeccompFlag) func(*specs.Spec) {
		return seccomp(specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Flags: list})
	}
	zero := uint(0)
	runCases(t, strict, []outcome{
		{name: "seccomp=unconfined", check: func(t *testing.T, r Result) {
			if r.Filter.Len() == 0 || bundleFilters(r.Spec) != 0 {
				t.Error("got no second layer, want it whatever the first is")
			}
		}},
		{name: "an errno of 0, left alone", bundle: seccomp(specs.LinuxSeccomp{DefaultAction: specs.ActErrno, DefaultErrnoRet: &zero})},
		{name: "a rule that notifies", bundle: rule(specs.ActNotify), denied: "linux.seccomp.syscalls[1].action: saw SCMP_ACT_NOTIFY"},
		{name: "a rule that traces", bundle: rule(specs.ActTrace), denied: "linux.seccomp.syscalls[1].action: saw SCMP_ACT_TRACE"},
		{name: "a default that notifies", bundle: seccomp(specs.LinuxSeccomp{DefaultAction: specs.ActNotify}), denied: "linux.seccomp.defaultAction"},
		{name: "a default that traces", bundle: seccomp(specs.LinuxSeccomp{DefaultAction: specs.ActTrace}), denied: "linux.seccomp.defaultAction"},
		{name: "a listener", bundle: seccomp(specs.LinuxSeccomp{DefaultAction: specs.ActAllow, ListenerPath: "/x"}), denied: "linux.seccomp.listenerPath"},
		{name: "a listener's data", bundle: seccomp(specs.LinuxSeccomp{DefaultAction: specs.ActAllow, ListenerMetadata: "x"}), denied: "linux.seccomp.listenerMetadata"},
		{name: "flags", bundle: flags("SECCOMP_FILTER_FLAG_TSYNC", specs.LinuxSeccompFlagLog, specs.LinuxSeccompFlagSpecAllow)},
		{name: "a listener's flag", bundle: flags(specs.LinuxSeccompFlagLog, specs.LinuxSeccompFlagWaitKillableRecv), check: func(t *testing.T, r Result) {
			if got := r.Spec.Linux.Seccomp.Flags; !slices.Equal(got, []specs.LinuxSeccompFlag{specs.LinuxSeccompFlagLog}) {
				t.Errorf("got %v, want the flag gone", got)
			}
			wantChange(t, r, "linux.seccomp.flags", Dropped)
		}},
		{name: "an unknown flag", bundle: flags("SECCOMP_FILTER_FLAG_NEW_LISTENER"), denied: "linux.seccomp.flags[0]"},
	})
}

func TestCgroupsPath(t *testing.T) {
	at := func(name string) func(*specs.Spec) { return func(s *specs.Spec) { s.Linux.CgroupsPath = name } }
	runCases(t, strict, []outcome{
		{name: "none", bundle: at("")},
		{name: "as Docker", bundle: at("/docker/abc")},
		{name: "as Kubernetes", bundle: at("/kubepods/burstable/pod1/abc")},
		{name: "as systemd", bundle: at("system.slice:docker:abc")},
		{name: "as systemd, no slice", bundle: at(":docker:abc")},
		{name: "the root", bundle: at("/"), denied: "which is the host's"},
		{name: "the root by another name", bundle: at("//."), denied: "which is the host's"},
		{name: "a slice of the host", bundle: at("/system.slice"), denied: "which is the host's"},
		{name: "a slice of the host, relative", bundle: at("user.slice/"), denied: "which is the host's"},
		{name: "all pods", bundle: at("/kubepods"), denied: "which is the host's"},
		{name: "up", bundle: at("/docker/../system.slice"), denied: `want a path without ".."`},
		{name: "a slice as a unit", bundle: at("system.slice:docker:user.slice"), denied: "saw the unit"},
		{name: "no unit", bundle: at("system.slice:docker:"), denied: "saw the unit"},
		{name: "a unit elsewhere", bundle: at("system.slice:docker:a/b"), denied: "saw the unit"},
		{name: "no slice", bundle: at("docker.service:x:y"), denied: "saw the slice"},
	})
}

// Proves: S-108, E-030.
func TestPaths(t *testing.T) {
	list := func(masked ...string) func(*specs.Spec) {
		return func(s *specs.Spec) { s.Linux.MaskedPaths, s.Linux.ReadonlyPaths = masked, masked }
	}
	runCases(t, strict, []outcome{
		{name: "systempaths=unconfined", bundle: list(), check: func(t *testing.T, r Result) {
			for _, want := range append(slices.Clone(maskedPaths), "/sys/devices/system/cpu/cpu1/thermal_throttle") {
				if !slices.Contains(r.Spec.Linux.MaskedPaths, want) {
					t.Errorf("got %s visible, want it masked", want)
				}
			}
			for _, want := range readonlyPaths {
				if !slices.Contains(r.Spec.Linux.ReadonlyPaths, want) {
					t.Errorf("got %s writable, want it read-only", want)
				}
			}
		}},
		{name: "what the bundle masks besides", bundle: list("/opt/secret"), check: func(t *testing.T, r Result) {
			if !slices.Contains(r.Spec.Linux.MaskedPaths, "/opt/secret") {
				t.Error("got it visible, want it masked")
			}
		}},
		{name: "relative", bundle: list("opt"), denied: "linux.maskedPaths[0]", code: errcode.BundleInvalid},
		{name: "up", bundle: list("/opt/../proc"), denied: "linux.maskedPaths[0]", code: errcode.BundleInvalid},
		{name: "a descriptor", bundle: list("/proc/self/fd/7"), denied: "want nothing of a single process"},
		{name: "a process", bundle: list("//proc/1/root"), denied: "want nothing of a single process"},
		{name: "a thread", bundle: list("/proc/thread-self/mem"), denied: "want nothing of a single process"},
	})
	for _, name := range []string{"docker", "podman", "ctr", "nerdctl"} {
		// What an engine hides by default must not be less than what we do.
		l := loadBundle(t, name).Linux
		if got := without(l.MaskedPaths, maskedPaths); len(got) > 0 {
			t.Errorf("%s masks %v, want it in our list", name, got)
		}
		if got := without(l.ReadonlyPaths, slices.Concat(readonlyPaths, maskedPaths)); len(got) > 0 {
			t.Errorf("%s has %v read-only, want it in our list", name, got)
		}
	}
}

func TestRoot(t *testing.T) {
	at := func(dir string) func(*Facts) { return func(f *Facts) { f.RootFS = dir } }
	runCases(t, loose, []outcome{
		{name: "writable by policy", check: func(t *testing.T, r Result) {
			if r.Spec.Root.Readonly {
				t.Error("got it read-only, want it writable")
			}
		}},
		{name: "read-only by the bundle", bundle: func(s *specs.Spec) { s.Root.Readonly = true }, check: func(t *testing.T, r Result) {
			if !r.Spec.Root.Readonly {
				t.Error("got it writable, want it read-only")
			}
		}},
		{name: "below /run, as containerd has it", facts: at("/run/containerd/x/rootfs")},
		{name: "the host's", facts: at("/"), denied: `root.path: saw "/"`},
		{name: "all of the host's state", facts: at("/var/lib"), denied: `root.path: saw "/var/lib"`},
		{name: "sockets of the host", facts: at("/run"), denied: `root.path: saw "/run"`},
		{name: "not looked at", facts: at(""), denied: "root.path: nothing is known"},
	})
}

// Proves: S-014, S-015.
func TestLinuxFields(t *testing.T) {
	linux := func(change func(l *specs.Linux)) func(*specs.Spec) { return func(s *specs.Spec) { change(s.Linux) } }
	propagation := func(name string) func(*specs.Spec) {
		return linux(func(l *specs.Linux) { l.RootfsPropagation = name })
	}
	private := func(t *testing.T, r Result) {
		t.Helper()
		if got := r.Spec.Linux.RootfsPropagation; got != "rprivate" {
			t.Errorf("got %s, want rprivate", got)
		}
	}
	runCases(t, strict, []outcome{
		{name: "propagation, private", bundle: propagation("private"), check: private},
		{name: "propagation, as Podman with volumes", bundle: propagation("rslave"), check: private},
		{name: "propagation, shared", bundle: propagation("rshared"), denied: "linux.rootfsPropagation"},
		{name: "propagation, unbindable", bundle: propagation("unbindable"), denied: "linux.rootfsPropagation"},
		{name: "personality", bundle: linux(func(l *specs.Linux) { l.Personality = &specs.LinuxPersonality{Domain: specs.PerLinux} })},
		{name: "personality, 32 bits", bundle: linux(func(l *specs.Linux) { l.Personality = &specs.LinuxPersonality{Domain: specs.PerLinux32} }), denied: "linux.personality.domain"},
		{name: "personality, flags", bundle: linux(func(l *specs.Linux) {
			l.Personality = &specs.LinuxPersonality{Domain: specs.PerLinux, Flags: []specs.LinuxPersonalityFlag{"ADDR_NO_RANDOMIZE"}}
		}), denied: "linux.personality.flags"},
		{name: "a share of the cache", bundle: linux(func(l *specs.Linux) { l.IntelRdt = &specs.LinuxIntelRdt{Schemata: []string{"L3:0=f"}} })},
		{name: "a class of others", bundle: linux(func(l *specs.Linux) { l.IntelRdt = &specs.LinuxIntelRdt{ClosID: "batch"} })},
		{name: "a class of others, changed", bundle: linux(func(l *specs.Linux) { l.IntelRdt = &specs.LinuxIntelRdt{ClosID: "batch", L3CacheSchema: "L3:0=f"} }), denied: "linux.intelRdt"},
		{name: "a label", bundle: linux(func(l *specs.Linux) { l.MountLabel = "system_u:object_r:container_file_t:s0:c1,c2" })},
		{name: "a label with mount options in it", bundle: linux(func(l *specs.Linux) { l.MountLabel = `x",size=100g,y="` }), denied: "linux.mountLabel", code: errcode.BundleInvalid},
		{name: "a process label", bundle: func(s *specs.Spec) { s.Process.SelinuxLabel = "a b" }, denied: "process.selinuxLabel", code: errcode.BundleInvalid},
		{name: "network devices", bundle: linux(func(l *specs.Linux) { l.NetDevices = map[string]specs.LinuxNetDevice{"eth0": {}} }), denied: "linux.netDevices"},
		{name: "memory policy", bundle: linux(func(l *specs.Linux) { l.MemoryPolicy = &specs.LinuxMemoryPolicy{Mode: specs.MpolLocal} })},
		{name: "a virtual machine", bundle: func(s *specs.Spec) { s.VM = &specs.VM{} }, denied: "vm: want none: not for Linux"},
		{name: "windows", bundle: func(s *specs.Spec) { s.Windows = &specs.Windows{} }, denied: "windows: want none"},
		{name: "solaris", bundle: func(s *specs.Spec) { s.Solaris = &specs.Solaris{} }, denied: "solaris: want none"},
		{name: "zos", bundle: func(s *specs.Spec) { s.ZOS = &specs.ZOS{} }, denied: "zos: want none"},
		{name: "freebsd", bundle: func(s *specs.Spec) { s.FreeBSD = &specs.FreeBSD{} }, denied: "freebsd: want none"},
		{name: "a command line", bundle: func(s *specs.Spec) { s.Process.CommandLine = "x" }, denied: "process.commandLine: want none"},
		{name: "a user's name", bundle: func(s *specs.Spec) { s.Process.User.Username = "x" }, denied: "process.user.username: want none"},
		{name: "no linux", bundle: func(s *specs.Spec) { s.Linux = nil }, denied: "want each of process, root and linux", code: errcode.BundleInvalid},
		{name: "no root", bundle: func(s *specs.Spec) { s.Root = nil }, denied: "want each of", code: errcode.BundleInvalid},
		{name: "no process", bundle: func(s *specs.Spec) { s.Process = nil }, denied: "want each of", code: errcode.BundleInvalid},
	})
}

func TestAnnotations(t *testing.T) {
	set := func(key string) func(*specs.Spec) {
		return func(s *specs.Spec) { s.Annotations = map[string]string{key: "secret", "a": "b"} }
	}
	runCases(t, strict, []outcome{
		{name: "of a stranger", bundle: set("com.example.x"), check: func(t *testing.T, r Result) {
			if r.Spec.Annotations["com.example.x"] != "secret" {
				t.Error("got it gone, want it kept")
			}
		}},
		{name: "how long systemd waits", bundle: set("org.systemd.property.TimeoutStopUSec")},
		{name: "a limit of systemd's", bundle: set("org.systemd.property.MemoryMax"), denied: `saw "org.systemd.property.MemoryMax"`},
		{name: "devices of systemd's", bundle: set("org.systemd.property.DeviceAllow"), denied: "annotations: saw"},
	})
}

func TestErrorsAreOneLine(t *testing.T) {
	s := bundle()
	s.Hooks = &specs.Hooks{Poststop: []specs.Hook{{Path: "/a\nb"}}}
	_, err := Apply(s, strict(), plainFacts(s))
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one line", err)
	}
}
