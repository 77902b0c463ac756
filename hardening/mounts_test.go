package hardening

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

func mounts(list ...specs.Mount) func(*specs.Spec) {
	return func(s *specs.Spec) { s.Mounts = append(s.Mounts, list...) }
}

func bind(source, to string, options ...string) specs.Mount {
	return specs.Mount{Destination: to, Type: "bind", Source: source, Options: append([]string{"rbind"}, options...)}
}

func freshAt(kind, to string, options ...string) specs.Mount {
	return specs.Mount{Destination: to, Type: kind, Source: kind, Options: options}
}

// firstMount changes what is known of the bundle's first mount.
func firstMount(change func(*MountFacts)) func(*Facts) {
	return func(f *Facts) { change(&f.Mounts[0]) }
}

func wantOptions(at, want string) func(*testing.T, Result) {
	return func(t *testing.T, r Result) {
		t.Helper()
		if got := strings.Join(mountAt(t, r.Spec, at).Options, ","); got != want {
			t.Errorf("got %s for %s, want %s", got, at, want)
		}
	}
}

// Proves: S-108, G-09.
func TestKernelMounts(t *testing.T) {
	writableProc := func(p *spec.Policy) { p.Files.ReadonlyProc = false }
	const refused = "want only options"
	runCases(t, strict, []outcome{
		{name: "proc", bundle: mounts(freshAt("proc", "/proc", "rw", "exec", "suid")), check: wantOptions("/proc", "ro,nosuid,nodev,noexec")},
		{name: "proc, writable by policy", policy: writableProc, bundle: mounts(freshAt("proc", "/proc")), check: wantOptions("/proc", "nosuid,nodev,noexec")},
		{name: "proc, read-only by the bundle", policy: writableProc, bundle: mounts(freshAt("proc", "/proc", "ro")), check: wantOptions("/proc", "ro,nosuid,nodev,noexec")},
		{name: "proc, hidden", bundle: mounts(freshAt("proc", "/proc", "hidepid=2")), check: wantOptions("/proc", "ro,nosuid,nodev,noexec,hidepid=2")},
		{name: "proc, a group that sees all", bundle: mounts(freshAt("proc", "/proc", "gid=5")), denied: refused},
		{name: "proc elsewhere", bundle: mounts(freshAt("proc", "/x")), denied: "want /proc for proc"},
		{name: "proc at a symlink", bundle: mounts(freshAt("proc", "/proc")), facts: firstMount(func(m *MountFacts) { m.Destination = "/x" }), denied: `leads to "/x"`},
		{name: "sysfs", bundle: mounts(freshAt("sysfs", "/sys", "rw")), check: wantOptions("/sys", "ro,nosuid,nodev,noexec")},
		{name: "sysfs elsewhere", bundle: mounts(freshAt("sysfs", "/x")), denied: "want /sys for sysfs"},
		{name: "cgroup", bundle: mounts(freshAt("cgroup", "/sys/fs/cgroup", "relatime")), check: wantOptions("/sys/fs/cgroup", "ro,nosuid,nodev,noexec,relatime")},
		{name: "cgroup2", bundle: mounts(freshAt("cgroup2", "/sys/fs/cgroup")), check: wantOptions("/sys/fs/cgroup", "ro,nosuid,nodev,noexec")},
		{name: "cgroup elsewhere", bundle: mounts(freshAt("cgroup", "/x")), denied: "want /sys/fs/cgroup"},
		{name: "cgroup's own options", bundle: mounts(freshAt("cgroup2", "/sys/fs/cgroup", "nsdelegate")), denied: refused},
		{name: "mqueue", bundle: mounts(freshAt("mqueue", "/dev/mqueue")), check: wantOptions("/dev/mqueue", "nosuid,nodev,noexec")},
		{name: "devpts", bundle: mounts(freshAt("devpts", "/dev/pts", "newinstance", "gid=5")), check: wantOptions("/dev/pts", "nosuid,noexec,newinstance,gid=5")},
		{name: "devpts elsewhere", bundle: mounts(freshAt("devpts", "/x")), denied: "want /dev/pts"},
		{name: "overlay", bundle: mounts(freshAt("overlay", "/x", "lowerdir=/")), denied: "mounts[0].type: saw \"overlay\""},
		{name: "ext4", bundle: mounts(freshAt("ext4", "/x")), denied: "mounts[0].type"},
		{name: "fuse", bundle: mounts(freshAt("fuse", "/x")), denied: "mounts[0].type"},
		{name: "debugfs", bundle: mounts(freshAt("debugfs", "/x")), denied: "mounts[0].type"},
		{name: "devtmpfs", bundle: mounts(freshAt("devtmpfs", "/dev")), denied: "mounts[0].type"},
		{name: "no type", bundle: mounts(freshAt("", "/x")), denied: "mounts[0].type"},
		{name: "shared", bundle: mounts(freshAt("tmpfs", "/x", "rshared")), denied: "saw rshared"},
		{name: "remount", bundle: mounts(freshAt("tmpfs", "/x", "remount")), denied: "saw remount"},
	})
}

// Proves: A-015, E-035, C-08, C-15.
func TestTmpfs(t *testing.T) {
	small := func(p *spec.Policy) { p.Resources.MemoryBytes = 16 << 20 }
	runCases(t, strict, []outcome{
		{name: "without a size", bundle: mounts(freshAt("tmpfs", "/x")), check: wantOptions("/x", "nosuid,nodev,size=67108864")},
		{name: "with a size", bundle: mounts(freshAt("tmpfs", "/x", "exec", "size=1m", "mode=700")), check: wantOptions("/x", "nosuid,nodev,mode=700,size=1m")},
		{name: "above the memory limit", policy: small, bundle: mounts(freshAt("tmpfs", "/x", "size=1g")), check: wantOptions("/x", "nosuid,nodev,size=16777216")},
		{name: "the default above the memory limit", policy: small, bundle: mounts(freshAt("tmpfs", "/x")), check: wantOptions("/x", "nosuid,nodev,size=16777216")},
		{name: "of any size", bundle: mounts(freshAt("tmpfs", "/x", "size=0", "nr_inodes=0", "huge=always")), check: wantOptions("/x", "nosuid,nodev,size=67108864")},
		{name: "a share of the memory", bundle: mounts(freshAt("tmpfs", "/x", "size=90%")), check: wantOptions("/x", "nosuid,nodev,size=67108864")},
		{name: "in blocks", bundle: mounts(freshAt("tmpfs", "/x", "nr_blocks=99999999")), check: wantOptions("/x", "nosuid,nodev,size=67108864")},
		{name: "the last size counts", bundle: mounts(freshAt("tmpfs", "/x", "size=1k", "size=100g")), check: wantOptions("/x", "nosuid,nodev,size=1073741824")},
		{name: "an option nobody knows", bundle: mounts(freshAt("tmpfs", "/x", "context=evil")), denied: "want only options of tmpfs"},
		{name: "/dev/shm", bundle: mounts(freshAt("tmpfs", "/dev/shm", "exec")), check: wantOptions("/dev/shm", "nosuid,nodev,noexec,size=67108864")},
		{name: "/dev", bundle: mounts(freshAt("tmpfs", "/dev", "mode=755")), check: wantOptions("/dev", "ro,nosuid,mode=755,size=67108864")},
		{name: "/dev at a symlink", bundle: mounts(freshAt("tmpfs", "/dev")), facts: firstMount(func(m *MountFacts) { m.Destination = "/etc" }), denied: `leads to "/etc"`},
		{name: "/run", bundle: mounts(freshAt("tmpfs", "/run")), check: wantOptions("/run", "nosuid,nodev,size=67108864")},
		{name: "over the libraries", bundle: mounts(freshAt("tmpfs", "/usr/lib")), denied: `saw a writable mount at "/usr/lib"`},
		{name: "copied up", bundle: mounts(freshAt("tmpfs", "/x", "tmpcopyup")), check: wantOptions("/x", "nosuid,nodev,tmpcopyup,size=67108864")},
		{name: "/tmp for a read-only root", check: wantOptions("/tmp", "nosuid,nodev,mode=1777,size=67108864")},
		{name: "/tmp of the bundle's", bundle: mounts(freshAt("tmpfs", "/tmp", "size=1m")), check: func(t *testing.T, r Result) {
			wantOptions("/tmp", "nosuid,nodev,size=1m")(t, r)
			if len(r.Spec.Mounts) != 1 {
				t.Errorf("got %v, want no second /tmp", r.Spec.Mounts)
			}
		}},
		{name: "/tmp below what the bundle has in it", bundle: mounts(freshAt("tmpfs", "/x"), freshAt("tmpfs", "/tmp/a")), check: func(t *testing.T, r Result) {
			var got []string
			for _, m := range r.Spec.Mounts {
				got = append(got, m.Destination)
			}
			if diff := cmp.Diff(got, []string{"/x", "/tmp", "/tmp/a"}); diff != "" {
				t.Errorf("got, want: %s", diff)
			}
		}},
		{name: "no /tmp for a writable root", policy: func(p *spec.Policy) { p.Files.ReadonlyRoot = false }, check: func(t *testing.T, r Result) {
			if len(r.Spec.Mounts) != 0 {
				t.Errorf("got %v, want none", r.Spec.Mounts)
			}
		}},
	})
}

// Proves: S-109, S-110, E-032, E-033, A-014, G-15, G-22.
func TestBindSources(t *testing.T) {
	data := mounts(bind("/srv/data", "/data"))
	kind := func(k SourceKind) func(*Facts) { return firstMount(func(m *MountFacts) { m.Kind = k }) }
	source := func(resolved string) func(*Facts) {
		return firstMount(func(m *MountFacts) { m.Source = resolved })
	}
	runCases(t, loose, []outcome{
		{name: "a directory", bundle: data, check: wantOptions("/data", "rbind,rprivate,ro,nosuid,nodev,rro,rnosuid,rnodev")},
		{name: "a directory on a mount with less", bundle: mounts(bind("/srv/work/a", "/data")), facts: firstMount(func(m *MountFacts) {
			m.Readonly, m.NoExec, m.NoSymFollow = true, true, true
		}), check: wantOptions("/data", "rbind,rprivate,ro,nosuid,nodev,noexec,nosymfollow,rro,rnosuid,rnodev,rnoexec")},
		{name: "missing", bundle: data, facts: kind(SourceMissing), denied: `mounts[0].source: saw "/srv/data", which does not exist`},
		{name: "a socket", bundle: data, facts: kind(SourceSocket), denied: "saw a socket"},
		{name: "a FIFO", bundle: data, facts: kind(SourceFIFO), denied: "saw a fifo"},
		{name: "a device", bundle: data, facts: kind(SourceDevice), denied: "saw a device"},
		{name: "a symlink", bundle: data, facts: kind(SourceSymlink), denied: "saw a symlink"},
		{name: "not looked at", bundle: data, facts: kind(SourceNone), denied: "saw a mount without a source"},
		{name: "of a kind nobody knows", bundle: data, facts: kind("door"), denied: "nothing is known"},
		{name: "a relative answer", bundle: data, facts: source("data"), denied: "nothing is known of where"},
		{name: "-v /proc:/x", bundle: data, facts: firstMount(func(m *MountFacts) { m.Magic = procMagic }), denied: "which is on proc of the host"},
		{name: "-v /sys:/x", bundle: data, facts: firstMount(func(m *MountFacts) { m.Magic = 0x62656572 }), denied: "which is on sysfs of the host"},
		{name: "a magic with its sign", bundle: data, facts: firstMount(func(m *MountFacts) { m.Magic = 0xcafe4a11 - 1<<32 }), denied: "on bpf"},
		{name: "bpf", bundle: data, facts: firstMount(func(m *MountFacts) { m.Magic = 0xcafe4a11 }), denied: "on bpf"},
		{name: "cgroup2", bundle: data, facts: firstMount(func(m *MountFacts) { m.Magic = 0x63677270 }), denied: "on cgroup2"},
		{name: "nsfs", bundle: data, facts: firstMount(func(m *MountFacts) { m.Magic = 0x6e736673 }), denied: "on nsfs"},
		{name: "proc below it", bundle: data, facts: firstMount(func(m *MountFacts) {
			m.Below = []SubmountFacts{{"/srv/data/a", ext4Magic}, {"/srv/data/b", procMagic}}
		}), denied: `below which "/srv/data/b" is proc`},
		{name: "proc below it, not brought along", bundle: mounts(specs.Mount{Destination: "/data", Source: "/srv/data", Options: []string{"bind"}}), facts: firstMount(func(m *MountFacts) {
			m.Below = []SubmountFacts{{"/srv/data/b", procMagic}}
		}), check: wantOptions("/data", "bind,rprivate,ro,nosuid,nodev")},
		{name: "a socket in it", bundle: data, facts: firstMount(func(m *MountFacts) { m.Socket = "/srv/data/x.sock" }), denied: `saw the socket "/srv/data/x.sock"`},
		{name: "a socket in it, listed", bundle: mounts(bind("/srv/work/a", "/data")), facts: firstMount(func(m *MountFacts) { m.Socket = "/srv/work/a/s" }), denied: "saw the socket"},
		{name: "too large to search", bundle: data, facts: firstMount(func(m *MountFacts) { m.Unsearched = true }), denied: "too large to be searched"},
		{name: "too large to search, listed", bundle: mounts(bind("/srv/work/a", "/data")), facts: firstMount(func(m *MountFacts) { m.Unsearched = true }), check: func(t *testing.T, r Result) {
			if r.Network.NoUnix == "" {
				t.Error("got AF_UNIX open, want it closed: nobody searched the directory")
			}
		}},
		{name: "-v /:/host", bundle: mounts(bind("/", "/host")), denied: `saw "/", want nothing of /run/sage`},
		{name: "-v /etc:/x", bundle: mounts(bind("/etc", "/x")), denied: "/etc/sage"},
		{name: "-v /etc/sage:/x", bundle: mounts(bind("/etc/sage", "/x")), denied: "/etc/sage"},
		{name: "-v /run:/x", bundle: mounts(bind("/run", "/x")), denied: "/run/sage"},
		{name: "a symlink to /run", bundle: data, facts: source("/run/docker"), denied: `saw "/run/docker", want nothing of /run`},
		{name: "-v /var/lib/docker:/x", bundle: mounts(bind("/var/lib/docker", "/x")), denied: "an engine's state"},
		{name: "-v /var/lib/docker/overlay2/a:/x", bundle: mounts(bind("/var/lib/docker/overlay2/a", "/x")), denied: "an engine's state"},
		{name: "-v /var/lib/kubelet/pki:/x", bundle: mounts(bind("/var/lib/kubelet/pki", "/x")), denied: "an engine's state"},
		{name: "-v /var/lib:/x", bundle: mounts(bind("/var/lib", "/x")), denied: "nor a directory that it is in"},
		{name: "-v /dev:/x", bundle: mounts(bind("/dev", "/x")), denied: "the host's devices"},
		{name: "-v /etc/shadow:/x", bundle: mounts(bind("/etc/shadow", "/x")), denied: "passwords"},
		{name: "-v /etc/ssl:/x", bundle: mounts(bind("/etc/ssl", "/x")), check: wantOptions("/x", "rbind,rprivate,ro,nosuid,nodev,rro,rnosuid,rnodev")},
		{name: "a name that begins alike", bundle: mounts(bind("/running", "/x"))},
		{name: "a volume of Docker's", bundle: mounts(bind("/var/lib/docker/volumes/v/_data", "/x"))},
		{name: "a part of a volume", bundle: mounts(bind("/var/lib/docker/volumes/v/_data/a/b", "/x"))},
		{name: "all volumes", bundle: mounts(bind("/var/lib/docker/volumes", "/x")), denied: "an engine's state"},
		{name: "a volume of Kubernetes", bundle: mounts(bind("/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/v", "/x"))},
		{name: "a token of Kubernetes", bundle: mounts(bind("/var/lib/kubelet/pods/u/volumes/kubernetes.io~projected/t", "/var/run/secrets/kubernetes.io/serviceaccount"))},
		{name: "a volume of Podman's", bundle: mounts(bind("/var/lib/containers/storage/volumes/v/_data", "/x"))},
		{name: "a volume of nerdctl's", bundle: mounts(bind("/var/lib/nerdctl/1/volumes/default/v/_data", "/x"))},
		{name: "a place of an engine's, listed", policy: func(p *spec.Policy) { p.Files.WritePaths = []string{"/var/lib/docker/x"} }, bundle: mounts(bind("/var/lib/docker/x/y", "/x"))},
		{name: "sage's own, listed", policy: func(p *spec.Policy) { p.Files.WritePaths = []string{"/run"} }, bundle: mounts(bind("/run/sage/c1", "/x")), denied: "sage's own state"},
		{name: "facts of other mounts", bundle: data, facts: func(f *Facts) { f.Mounts = nil }, denied: "facts are of 0 mounts, want of 1"},
	})
}

// Proves: S-108, S-120, E-032, A-014.
func TestBindOptions(t *testing.T) {
	mapping := []specs.LinuxIDMapping{{Size: 1}}
	mapped := bind("/srv/data", "/data")
	mapped.UIDMappings, mapped.GIDMappings = mapping, mapping
	userns := func(s *specs.Spec) {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: "user"})
		s.Linux.UIDMappings, s.Linux.GIDMappings = mapping, mapping
	}
	const readonly = "rbind,rprivate,ro,nosuid,nodev,rro,rnosuid,rnodev"
	runCases(t, loose, []outcome{
		{name: "rw", bundle: mounts(bind("/srv/data", "/data", "rw", "rprivate")), check: wantOptions("/data", readonly)},
		{name: "suid, dev, exec", bundle: mounts(bind("/srv/data", "/data", "suid", "dev", "exec", "rsuid", "rdev", "rrw")), check: wantOptions("/data", readonly)},
		{name: "listed", bundle: mounts(bind("/srv/work/a", "/data", "rw")), check: wantOptions("/data", "rbind,rprivate,nosuid,nodev,rnosuid,rnodev")},
		{name: "listed, and read-only by wish", bundle: mounts(bind("/srv/work/a", "/data", "rro")), check: wantOptions("/data", readonly)},
		{name: "listed, the directory itself", bundle: mounts(bind("/srv/work", "/data")), check: wantOptions("/data", "rbind,rprivate,nosuid,nodev,rnosuid,rnodev")},
		{name: "a name that begins like a listed one", bundle: mounts(bind("/srv/workshop", "/data")), check: wantOptions("/data", readonly)},
		{name: "noexec stays", bundle: mounts(bind("/srv/work/a", "/data", "noexec", "noatime")), check: wantOptions("/data", "rbind,rprivate,nosuid,nodev,noexec,noatime,rnosuid,rnodev,rnoexec")},
		{name: "slave", bundle: mounts(bind("/srv/data", "/data", "rslave")), check: wantOptions("/data", readonly)},
		{name: "shared", bundle: mounts(bind("/srv/data", "/data", "shared")), denied: "saw shared, want a private mount"},
		{name: "unbindable", bundle: mounts(bind("/srv/data", "/data", "runbindable")), denied: "saw runbindable"},
		{name: "remount", bundle: mounts(bind("/srv/data", "/data", "remount")), denied: "saw remount"},
		{name: "an option of a file system", bundle: mounts(bind("/srv/data", "/data", "size=1")), denied: "a bind mount ignores them", code: errcode.BundleInvalid},
		{name: "bind by type alone", bundle: mounts(specs.Mount{Destination: "/data", Type: "bind", Source: "/srv/data"}), denied: "want bind or rbind", code: errcode.BundleInvalid},
		{name: "id-mapped", bundle: mounts(mapped), denied: "saw an id-mapped mount"},
		{name: "id-mapped by option", bundle: mounts(bind("/srv/data", "/data", "ridmap")), denied: "saw an id-mapped mount"},
		{name: "id-mapped, in a user namespace", bundle: func(s *specs.Spec) {
			userns(s)
			mounts(mapped)(s)
		}, check: wantOptions("/data", readonly)},
		{name: "a NUL byte", bundle: mounts(bind("/srv/a\x00b", "/data")), denied: "NUL", code: errcode.BundleInvalid},
		{name: "where the symlinks lead", bundle: mounts(bind("/srv/link", "/link")), facts: firstMount(func(m *MountFacts) {
			m.Source, m.Destination = "/srv/data", "/data"
		}), check: func(t *testing.T, r Result) {
			if m := mountAt(t, r.Spec, "/data"); m.Source != "/srv/data" {
				t.Errorf("got %v, want the source that was looked at", m)
			}
			wantChange(t, r, "mounts[0].source", Tightened)
			wantChange(t, r, "mounts[0].destination", Tightened)
		}},
	})
}

// Proves: S-111, G-23.
func TestDestinations(t *testing.T) {
	to := func(dest string) func(*specs.Spec) { return mounts(bind("/srv/data", dest)) }
	write := func(dest string) func(*specs.Spec) { return mounts(bind("/srv/work/a", dest)) }
	lead := func(dest string) func(*Facts) {
		return firstMount(func(m *MountFacts) { m.Destination = dest })
	}
	runCases(t, loose, []outcome{
		{name: "below /usr", bundle: write("/usr/local/x")},
		{name: "/run", bundle: to("/run")},
		{name: "/var/run", bundle: to("/var/run/x")},
		{name: "/tmp", bundle: write("/tmp/x")},
		{name: "unclean", bundle: to("/a/../data/"), facts: lead("/data")},
		{name: "relative", bundle: to("data"), denied: "want an absolute path", code: errcode.BundleInvalid},
		{name: "the root", bundle: to("/"), denied: "the root of the container"},
		{name: "a symlink to the root", bundle: to("/x"), facts: lead("/"), denied: "the root of the container"},
		{name: "/proc", bundle: to("/proc"), denied: "want nothing in /proc or /sys"},
		{name: "/proc/self/x", bundle: to("/proc/self/x"), denied: "want nothing in /proc or /sys"},
		{name: "a symlink to /proc", bundle: to("/x"), facts: lead("/proc/sys"), denied: "want nothing in /proc or /sys"},
		{name: "/sys", bundle: to("/sys"), denied: "want nothing in /proc or /sys"},
		{name: "/sys/firmware", bundle: to("/sys/firmware"), denied: "want nothing in /proc or /sys"},
		{name: "tmpfs at /proc", bundle: mounts(freshAt("tmpfs", "/proc/x")), denied: "want nothing in /proc or /sys"},
		{name: "/dev", bundle: to("/dev"), denied: "want nothing in /dev but"},
		{name: "/dev/null", bundle: to("/dev/null"), denied: "want nothing in /dev but"},
		{name: "/dev/termination-log", bundle: to("/dev/termination-log")},
		{name: "/run/sage", bundle: to("/run/sage"), denied: "is for sage itself"},
		{name: "/run/sage/x", bundle: to("/run/sage/x"), denied: "is for sage itself"},
		{name: "/run/sage-x", bundle: to("/run/sage-x"), denied: "is for sage itself"},
		{name: "writable over the libraries", bundle: write("/usr/lib"), denied: `saw a writable mount at "/usr/lib"`},
		{name: "writable over the configuration", bundle: write("/etc"), denied: `saw a writable mount at "/etc"`},
		{name: "read-only over the libraries", bundle: to("/usr/lib")},
		{name: "not looked at", bundle: to("/x"), facts: lead(""), denied: "nothing is known of where"},
		{name: "an unclean answer", bundle: to("/x"), facts: lead("/x/../proc"), denied: "nothing is known of where"},
	})
}

func TestInitBinary(t *testing.T) {
	for _, at := range []string{"/sbin/docker-init", "/dev/init"} {
		runCases(t, loose, []outcome{
			{name: "listed, at " + at, bundle: mounts(bind("/usr/bin/docker-init.file", at, "ro")), check: wantOptions(at, "rbind,rprivate,ro,nosuid,nodev,rro,rnosuid,rnodev")},
			{name: "not listed, at " + at, bundle: mounts(bind("/srv/evil.file", at)), denied: "init_binaries"},
			{name: "a directory, at " + at, bundle: mounts(bind("/usr/bin/docker-init", at)), denied: "init_binaries"},
		})
	}
}

// Proves: S-035, S-036, S-037.
func TestReadPaths(t *testing.T) {
	list := func(p *spec.Policy) { p.Files.ReadPaths = []string{"/usr/share/dict"} }
	known := func(m MountFacts) func(*Facts) { return func(f *Facts) { f.ReadPaths = []MountFacts{m} } }
	dict := MountFacts{Kind: SourceDirectory, Source: "/usr/share/dict", Magic: ext4Magic}
	with := func(change func(*MountFacts)) func(*Facts) {
		m := dict
		change(&m)
		return known(m)
	}
	ignored := func(t *testing.T, r Result) {
		t.Helper()
		wantChange(t, r, "files.read_paths[0]", Dropped)
		if slices.ContainsFunc(r.Spec.Mounts, func(m specs.Mount) bool { return m.Destination == "/usr/share/dict" }) {
			t.Error("got it mounted, want it ignored")
		}
	}
	runCases(t, loose, []outcome{
		{name: "mounted", policy: list, facts: known(dict), check: func(t *testing.T, r Result) {
			wantOptions("/usr/share/dict", "rbind,rprivate,ro,nosuid,nodev,rro,rnosuid,rnodev")(t, r)
			if r.Network.NoUnix != "" {
				t.Errorf("got AF_UNIX closed (%s), want it open: the directory is the host's choice", r.Network.NoUnix)
			}
		}},
		{name: "last", policy: list, facts: known(dict), bundle: mounts(bind("/srv/data", "/usr/share/dict")), check: func(t *testing.T, r Result) {
			if m := mountAt(t, r.Spec, "/usr/share/dict"); m.Source != "/usr/share/dict" {
				t.Errorf("got %v on top, want the host's", m)
			}
		}},
		{name: "missing", policy: list, facts: with(func(m *MountFacts) { m.Kind = SourceMissing }), check: ignored},
		{name: "a file", policy: list, facts: with(func(m *MountFacts) { m.Kind = SourceFile }), check: ignored},
		{name: "the root", policy: list, facts: with(func(m *MountFacts) { m.Source = "/" }), check: ignored},
		{name: "proc", policy: list, facts: with(func(m *MountFacts) { m.Magic = procMagic }), check: ignored},
		{name: "a workspace", policy: list, facts: with(func(m *MountFacts) { m.Source = "/srv/work/x" }), check: ignored},
		{name: "not looked at", policy: list, denied: "facts are of 0 paths, want of 1"},
		{name: "no place for it", facts: known(dict), policy: func(p *spec.Policy) { p.Files.ReadPaths = []string{"/proc"} }, check: func(t *testing.T, r Result) {
			wantChange(t, r, "files.read_paths[0]", Dropped)
		}},
	})
}

// Proves: S-118, G-10.
func TestProtectedPaths(t *testing.T) {
	protect := func(names ...string) func(*spec.Policy) {
		return func(p *spec.Policy) { p.Files.ProtectedPaths = names }
	}
	known := func(list ...ProtectedFacts) func(*Facts) { return func(f *Facts) { f.Protected = list } }
	git := ProtectedFacts{Path: "/w/a/b/.git", Kind: SourceDirectory, Mount: 0, Source: "/srv/work/x/a/b/.git"}
	with := func(change func(*ProtectedFacts)) func(*Facts) {
		f := git
		change(&f)
		return known(f)
	}
	work := mounts(bind("/srv/work/x", "/w", "rw"))
	const ancestor, closed = "bind,rprivate,nosuid,nodev", "rbind,rprivate,ro,nosuid,nodev,rro,rnosuid,rnodev"
	shown := func(want ...string) func(*testing.T, Result) {
		return func(t *testing.T, r Result) {
			t.Helper()
			var got []string
			for _, m := range r.Spec.Mounts {
				got = append(got, m.Source+" "+m.Destination+" "+strings.Join(m.Options, ","))
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("got, want: %s", diff)
			}
		}
	}
	const top = "/srv/work/x /w rbind,rprivate,nosuid,nodev,rnosuid,rnodev"
	runCases(t, loose, []outcome{
		{name: "with its ancestors", bundle: work, policy: protect("/w/a/b/.git"), facts: known(git), check: shown(
			top, "/srv/work/x/a /w/a "+ancestor, "/srv/work/x/a/b /w/a/b "+ancestor, "/srv/work/x/a/b/.git /w/a/b/.git "+closed,
		)},
		{name: "two, and one ancestor of both", bundle: work, policy: protect("/w/a/x", "/w/a/y"), facts: known(
			ProtectedFacts{Kind: SourceFile, Source: "/srv/work/x/a/x"}, ProtectedFacts{Kind: SourceFile, Source: "/srv/work/x/a/y"},
		), check: shown(top, "/srv/work/x/a /w/a "+ancestor, "/srv/work/x/a/x /w/a/x "+closed, "/srv/work/x/a/y /w/a/y "+closed)},
		{name: "below what is mounted deeper", bundle: mounts(bind("/srv/work/x", "/w", "rw"), bind("/srv/data", "/w/a/data")), policy: protect("/w/a/b/.git"), facts: known(git), check: shown(
			top, "/srv/work/x/a /w/a "+ancestor, "/srv/work/x/a/b /w/a/b "+ancestor, "/srv/work/x/a/b/.git /w/a/b/.git "+closed,
			"/srv/data /w/a/data "+closed,
		)},
		{name: "on the root", policy: protect("/app/conf"), facts: known(ProtectedFacts{Kind: SourceFile, Mount: -1, Source: "/srv/rootfs/app/conf"}), check: shown(
			"/srv/rootfs/app /app "+ancestor, "/srv/rootfs/app/conf /app/conf "+closed,
		)},
		{name: "on a read-only root", policy: func(p *spec.Policy) {
			protect("/app/conf")(p)
			p.Files.ReadonlyRoot = true
		}, facts: known(ProtectedFacts{Kind: SourceMissing, Mount: -1}), check: func(t *testing.T, r Result) {
			shown("tmpfs /tmp nosuid,nodev,mode=1777,size=67108864")(t, r)
		}},
		{name: "on a read-only mount", bundle: mounts(bind("/srv/data", "/w")), policy: protect("/w/a/b/.git"), facts: known(git), check: shown("/srv/data /w " + closed)},
		{name: "a mount as a whole", bundle: work, policy: protect("/w"), facts: known(ProtectedFacts{Kind: SourceDirectory, Source: "/srv/work/x"}), check: shown(
			"/srv/work/x /w rbind,rprivate,nosuid,nodev,rnosuid,rnodev,ro,rro",
		)},
		{name: "missing", bundle: work, policy: protect("/w/a/b/.git"), facts: with(func(f *ProtectedFacts) { f.Kind = SourceMissing }), denied: "a path that does not exist cannot be protected"},
		{name: "a symlink on the way", bundle: work, policy: protect("/w/a/b/.git"), facts: with(func(f *ProtectedFacts) { f.Kind = SourceSymlink }), denied: "saw a symlink on the way"},
		{name: "a socket", bundle: work, policy: protect("/w/a/b/.git"), facts: with(func(f *ProtectedFacts) { f.Kind = SourceSocket }), denied: "saw a socket"},
		{name: "elsewhere", bundle: work, policy: protect("/w/a/b/.git"), facts: with(func(f *ProtectedFacts) { f.Source = "/srv/work/x/c" }), denied: "nothing is known of where"},
		{name: "on another mount", bundle: work, policy: protect("/w/a/b/.git"), facts: with(func(f *ProtectedFacts) { f.Mount = 7 }), denied: "nothing is known of where"},
		{name: "not looked at", bundle: work, policy: protect("/w/a/b/.git"), denied: "facts are of 0 paths"},
		{name: "covered by a later mount", bundle: mounts(bind("/srv/work/x", "/w", "rw"), freshAt("tmpfs", "/w/a")), policy: protect("/w/a/b/.git"), facts: known(git), denied: `saw mounts[1] at "/w/a", which is writable and covers`},
		{name: "written into by a later mount", bundle: mounts(bind("/srv/work/x", "/w", "rw"), bind("/srv/work/h", "/w/a/b/.git/hooks")), policy: protect("/w/a/b/.git"), facts: known(git), denied: "is writable and covers"},
	})
}
