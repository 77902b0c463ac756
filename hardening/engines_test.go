package hardening

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/hardening/seccomp"
	"github.com/sage-sandbox/sage/spec"
)

var engineBundles = []string{
	"docker", "docker-privileged", "docker-shareable", "ctr", "ctr-userns", "cri-pause", "cri", "nerdctl", "podman",
}

// Proves: E-028, S-102, S-105, S-108, S-020.
func TestEveryEnginesBundle(t *testing.T) {
	for _, name := range engineBundles {
		for _, base := range []func() spec.Policy{strict, loose} {
			p := base()
			p.Files.SharedNamespaces = []string{"network", "ipc", "uts", "pid"}
			p.Files.Hooks = []string{"/usr/local/bin/nerdctl"}
			t.Run(name+"/"+p.Profile, func(t *testing.T) {
				s := loadBundle(t, name)
				r, err := Apply(s, p, plainFacts(s))
				if err != nil {
					t.Fatal(err)
				}
				checkHardened(t, r.Spec, p)
			})
		}
	}
}

// checkHardened asks what must hold of every hardened bundle, in its own words
// and not in those of the rules.
func checkHardened(t *testing.T, s *specs.Spec, p spec.Policy) {
	t.Helper()
	proc := s.Process
	for _, set := range [][]string{
		proc.Capabilities.Bounding, proc.Capabilities.Effective, proc.Capabilities.Permitted,
		proc.Capabilities.Inheritable, proc.Capabilities.Ambient,
	} {
		if lost := without(set, p.Process.Capabilities); len(lost) > 0 {
			t.Errorf("got capabilities %v that the policy lacks, want none", lost)
		}
	}
	if !proc.NoNewPrivileges {
		t.Error("got no_new_privs off, want it on")
	}
	if p.Files.ReadonlyRoot && !s.Root.Readonly {
		t.Error("got a writable root, want it read-only")
	}
	checkMounts(t, s, p)
	checkDevices(t, s, p)
	for _, want := range []string{"/proc/kcore", "/sys/firmware", "/proc/keys"} {
		if !slices.Contains(s.Linux.MaskedPaths, want) {
			t.Errorf("got %s unmasked, want it masked", want)
		}
	}
	r := s.Linux.Resources
	if *r.Memory.Limit > p.Resources.MemoryBytes || *r.Pids.Limit > p.Resources.MaxProcesses || *r.Memory.Swap > *r.Memory.Limit {
		t.Errorf("got memory %d swap %d pids %d, want at most the policy's", *r.Memory.Limit, *r.Memory.Swap, *r.Pids.Limit)
	}
}

func checkMounts(t *testing.T, s *specs.Spec, p spec.Policy) {
	t.Helper()
	for _, m := range s.Mounts {
		has := func(option string) bool { return slices.Contains(m.Options, option) }
		bind := has("bind") || has("rbind")
		writable := withinAny(m.Source, p.Files.WritePaths) || m.Destination == "/dev/shm"
		switch {
		case !has("nosuid"):
			t.Errorf("got %v, want nosuid", m)
		case !has("nodev") && m.Destination != "/dev" && m.Type != "devpts":
			t.Errorf("got %v, want nodev", m)
		case bind && !has("ro") && !writable:
			t.Errorf("got %v, want it read-only", m)
		case (m.Type == "sysfs" || m.Type == "cgroup") && !has("ro"):
			t.Errorf("got %v, want it read-only", m)
		case m.Type == "proc" && p.Files.ReadonlyProc && !has("ro"):
			t.Errorf("got %v, want it read-only", m)
		case m.Type == "tmpfs" && !slices.ContainsFunc(m.Options, func(o string) bool { return strings.HasPrefix(o, "size=") }):
			t.Errorf("got %v, want a size", m)
		case slices.ContainsFunc(m.Options, func(o string) bool { return strings.Contains(o, "shared") || o == "suid" || o == "dev" }):
			t.Errorf("got %v, want no such option", m)
		}
	}
}

func checkDevices(t *testing.T, s *specs.Spec, p spec.Policy) {
	t.Helper()
	for _, d := range s.Linux.Devices {
		if got := device(d); !slices.Contains(standard, got) && !slices.Contains(terminals, got) && !slices.Contains(p.Files.Devices, got) {
			t.Errorf("got device %v, want only the standard ones and the host's", d)
		}
	}
	rules := s.Linux.Resources.Devices
	if first := rules[0]; first.Allow || first.Type != "" || first.Major != nil {
		t.Errorf("got first rule %v, want everything denied", first)
	}
	for _, rule := range rules[1:] {
		if rule.Allow && (rule.Major == nil || strings.Contains(rule.Access, "m")) {
			t.Errorf("got rule %v, want a number and no mknod", rule)
		}
	}
}

// Proves: E-028.
func TestPrivileged(t *testing.T) {
	s := loadBundle(t, "docker-privileged")
	f := plainFacts(s)
	p := loose()
	r, err := Apply(s, p, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"process.capabilities.bounding", "linux.devices"} {
		wantChange(t, r, field, Dropped)
	}
	wantChange(t, r, "linux.resources.devices", Tightened)
	wantChange(t, r, "linux.maskedPaths", Added)
	wantChange(t, r, "linux.readonlyPaths", Added)
	wantChange(t, r, "linux.namespaces", Added)

	p.Files.RefusePrivileged = true
	outcome{denied: "files.refuse_privileged"}.wantError(t, second(Apply(s, p, f)))
	s.Linux.Resources.Devices = nil
	outcome{denied: "CAP_SYS_ADMIN"}.wantError(t, second(Apply(s, p, f)))
	if _, err := Apply(loadBundle(t, "docker"), p, plainFacts(loadBundle(t, "docker"))); err != nil {
		t.Errorf("got %v for Docker's default, want it accepted", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestEnginesSockets(t *testing.T) {
	for _, c := range []struct {
		bundle string
		want   seccomp.Network
	}{
		{"docker", seccomp.NetworkInetUnix},
		{"docker-shareable", seccomp.NetworkInetUnix}, // its /dev/shm is replaced
		{"podman", seccomp.NetworkInetUnix},
		{"nerdctl", seccomp.NetworkInetUnix},
		{"ctr", seccomp.NetworkInetUnix},
		{"cri", seccomp.NetworkNone}, // a pod's namespace
		{"cri-pause", seccomp.NetworkNone},
	} {
		t.Run(c.bundle, func(t *testing.T) {
			s := loadBundle(t, c.bundle)
			r, err := Apply(s, loose(), plainFacts(s))
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Network.Allowed; got != c.want {
				t.Errorf("got %v (inet %q, unix %q), want %v", got, r.Network.NoInet, r.Network.NoUnix, c.want)
			}
		})
	}
}

// Docker makes these itself, they are outside every quota, and one could fill
// the host's disk through them (attacks.md 16).
func TestEngineFilesAreReadonly(t *testing.T) {
	for _, name := range []string{"docker", "cri", "nerdctl", "podman"} {
		s := loadBundle(t, name)
		p := loose()
		p.Files.WritePaths = []string{"/var/lib", "/run"}
		r, err := Apply(s, p, plainFacts(s))
		if err != nil {
			t.Fatal(err)
		}
		m := mountAt(t, r.Spec, "/etc/hosts")
		for _, want := range []string{"ro", "nosuid", "nodev", "noexec"} {
			if !slices.Contains(m.Options, want) {
				t.Errorf("%s: got /etc/hosts with %v, want %s", name, m.Options, want)
			}
		}
	}
}

func TestSharedMemory(t *testing.T) {
	t.Run("of an engine, for one container", func(t *testing.T) {
		s := loadBundle(t, "podman")
		f := plainFacts(s)
		for i := range f.Mounts {
			f.Mounts[i].Bytes = 32 << 20
		}
		r, err := Apply(s, loose(), f)
		if err != nil {
			t.Fatal(err)
		}
		m := mountAt(t, r.Spec, "/dev/shm")
		if m.Type != "tmpfs" || !slices.Contains(m.Options, "size=33554432") || !slices.Contains(m.Options, "noexec") {
			t.Errorf("got %v, want a tmpfs of the same size", m)
		}
	})
	t.Run("of a pod", func(t *testing.T) {
		s := loadBundle(t, "cri")
		r, err := Apply(s, loose(), plainFacts(s))
		if err != nil {
			t.Fatal(err)
		}
		m := mountAt(t, r.Spec, "/dev/shm")
		if m.Type != "bind" || slices.Contains(m.Options, "ro") || !slices.Contains(m.Options, "noexec") {
			t.Errorf("got %v, want the pod's, writable and noexec", m)
		}
	})
}

func TestUnknownFieldsOfEngines(t *testing.T) {
	for _, name := range engineBundles {
		data, err := os.ReadFile(filepath.Join("testdata", "bundles", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := UnknownFields(data); err != nil {
			t.Errorf("%s: got %v, want every field known", name, err)
		}
	}
}
