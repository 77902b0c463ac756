//go:build kernel

package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

func linux(edit func(*specs.Linux)) func(*testing.T, *specs.Spec) {
	return func(_ *testing.T, s *specs.Spec) { edit(s.Linux) }
}

func process(edit func(*specs.Process)) func(*testing.T, *specs.Spec) {
	return func(_ *testing.T, s *specs.Spec) { edit(s.Process) }
}

// TestBundleMounts are mounts of other kinds than bind, each a way to the host's
// files or to its kernel.
//
// Proves: S-016.
func TestBundleMounts(t *testing.T) {
	var tricks []trick
	for _, kind := range []string{
		"debugfs", "tracefs", "securityfs", "bpf", "devtmpfs", "configfs", "binfmt_misc", "pstore", "efivarfs", "fusectl",
		"hugetlbfs", "ramfs", "nfs", "9p", "cifs", "ext4", "xfs", "fuse", "autofs", "rpc_pipefs", "none", "",
	} {
		tricks = append(tricks, trick{"type " + kind, mounted(specs.Mount{Type: kind, Source: "/dev/loop0", Destination: "/x"}), []string{"mounts["}})
	}
	layers := func(options ...string) specs.Mount {
		return specs.Mount{Type: "overlay", Source: "overlay", Destination: "/x", Options: options}
	}
	tricks = append(tricks,
		trick{"overlay of the root", mounted(layers("lowerdir=/:/etc")), []string{"mounts["}},
		trick{"writable overlay", func(t *testing.T, s *specs.Spec) {
			dir := harness.TempDir(t)
			check(t, os.Mkdir(filepath.Join(dir, "u"), 0o755))
			check(t, os.Mkdir(filepath.Join(dir, "w"), 0o755))
			mounted(layers("lowerdir=/etc,upperdir="+dir+"/u,workdir="+dir+"/w"))(t, s)
		}, []string{"mounts["}},
		trick{"bind by the options alone", mounted(specs.Mount{Type: "none", Source: "/proc", Destination: "/x", Options: []string{"rbind", "rw"}}), []string{"mounts["}},
		trick{"bind by the type alone", mounted(specs.Mount{Type: "bind", Source: "/proc", Destination: "/x"}), []string{"mounts["}},
		trick{"tmpfs with a bind in its options", mounted(specs.Mount{Type: "tmpfs", Source: "/proc", Destination: "/x", Options: []string{"bind"}}), []string{"mounts["}},
		trick{"relative source", mounted(specs.Mount{Type: "bind", Source: "../../../../../../proc", Destination: "/x", Options: []string{"bind"}}), []string{"mounts["}},
		trick{"relative destination", bind("/etc", "x"), nil},
		trick{"destination is the root", func(t *testing.T, s *specs.Spec) { bind(harness.TempDir(t), "/")(t, s) }, []string{"mounts["}},
		trick{"destination is the root, oddly", func(t *testing.T, s *specs.Spec) { bind(harness.TempDir(t), "/x/..")(t, s) }, []string{"mounts["}},
		trick{"shared with the host", func(t *testing.T, s *specs.Spec) { bind(harness.TempDir(t), "/x", "rshared")(t, s) }, nil},
		trick{"devices in it", func(t *testing.T, s *specs.Spec) { bind(harness.TempDir(t), "/x", "dev", "suid")(t, s) }, nil},
		trick{"mapped to other users", func(t *testing.T, s *specs.Spec) {
			some := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 0, Size: 1}}
			mounted(specs.Mount{
				Type: "bind", Source: harness.TempDir(t), Destination: "/x", Options: []string{"bind", "idmap"}, UIDMappings: some, GIDMappings: some,
			})(t, s)
		}, nil},
		trick{"cgroup to be written", mounted(specs.Mount{Type: "cgroup", Source: "cgroup", Destination: "/sys/fs/cgroup", Options: []string{"rw"}}), nil},
		trick{"cgroup elsewhere", mounted(specs.Mount{Type: "cgroup", Source: "cgroup", Destination: "/x", Options: []string{"rw"}}), nil},
		trick{"pts of the host", mounted(specs.Mount{Type: "devpts", Source: "devpts", Destination: "/x"}), nil},
		trick{"large tmpfs", mounted(specs.Mount{Type: "tmpfs", Source: "tmpfs", Destination: "/x", Options: []string{"size=1000g", "nr_inodes=0"}}), nil},
		trick{"keys of the host", bind("/etc/ssh", "/x"), nil},
		trick{"passwords of the host", bind("/etc/shadow", "/x"), nil},
	)
	failAll(t, tricks, harness.SoftSage, harness.SoftAgent)
}

// TestBundleRoot is a root file system that is the host's own.
//
// Proves: S-045.
func TestBundleRoot(t *testing.T) {
	root := func(path string) func(*testing.T, *specs.Spec) {
		return func(_ *testing.T, s *specs.Spec) {
			s.Root.Path, s.Root.Readonly = path, false
			s.Process.Args = []string{"/bin/sh", "-c", "echo writable: the root of the host"}
		}
	}
	failAll(t, []trick{
		{"root of the host", root("/"), nil},
		{"root of the host by init", root("/proc/1/root"), nil},
		{"root of the host by a link", func(t *testing.T, s *specs.Spec) { root(linkTo(t, "/"))(t, s) }, nil},
		{"root of the host by a longer way", root("/usr/.."), nil},
		{"usr of the host", root("/usr"), []string{"root.path"}},
		{"etc of the host", root("/etc"), []string{"root.path"}},
		{"proc", root("/proc"), nil},
		{"sys", root("/sys"), nil},
		{"dev", root("/dev"), nil},
		{"run", root("/run"), nil},
	}, harness.SoftAgent, harness.SoftSage)
}

// TestRootThatDecides: a root file system in which the host's file, the state or
// the runtime itself lie, where the container writes a policy of its own, or a
// program that root starts next.
//
// Proves: S-045.
func TestRootThatDecides(t *testing.T) {
	for _, c := range []struct {
		name  string
		place func(t *testing.T, r *harness.Runtime, root string)
		write string
	}{
		{"host's file", func(t *testing.T, r *harness.Runtime, root string) {
			text := readText(t, r.Config)
			r.Config = filepath.Join(root, "etc", "host.yaml")
			writeText(t, r.Config, text)
		}, "/etc/host.yaml"},
		{"runtime", func(t *testing.T, r *harness.Runtime, root string) {
			to := filepath.Join(root, "usr", "bin", "sage-runtime")
			check(t, os.MkdirAll(filepath.Dir(to), 0o755))
			_, err := harness.Output(exec.Command("cp", r.Bin, to))
			check(t, err)
			r.Bin = to
		}, "/usr/bin/sage-runtime"},
		{"state", func(t *testing.T, r *harness.Runtime, root string) {
			r.Root = filepath.Join(root, "run", "state")
			check(t, os.MkdirAll(r.Root, 0o700))
			writeText(t, filepath.Join(root, "run", "written"), "")
		}, "/run/written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := harness.NewRuntimeWith(t, harness.SoftAgent)
			root := harness.PrivateRoot(t)
			c.place(t, r, root)
			b := harness.NewBundle(t, func(s *specs.Spec) {
				s.Root.Path, s.Root.Readonly = root, false
				s.Process.Args = []string{"sh", "-c", "until echo x >>" + c.write + "; do sleep 0.05; done; echo written; sleep 1000"}
			})
			before, id := digest(t, filepath.Join(root, c.write)), harness.NewID()
			run := r.Start(t, "run", "--detach", "--bundle", b.Dir, id)
			res := run.Wait(t)
			if res.Code != 0 {
				refused(t, r, res, denied, "root.path")
				return
			}
			harness.Eventually(t, "the container has tried", func() bool { return strings.Contains(run.Stdout(t), "written") })
			t.Errorf("it ran; what the host decides with was changed by the container: %t", digest(t, filepath.Join(root, c.write)) != before)
			r.Must(t, "delete", "--force", id)
		})
	}
}

// TestBundleNamespaces: to be in one of the host's is to see or steer it.
//
// Proves: S-100.
func TestBundleNamespaces(t *testing.T) {
	var tricks []trick
	for _, kind := range []specs.LinuxNamespaceType{
		specs.PIDNamespace, specs.NetworkNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.MountNamespace, specs.CgroupNamespace,
	} {
		file := map[specs.LinuxNamespaceType]string{specs.NetworkNamespace: "net", specs.MountNamespace: "mnt"}[kind]
		if file == "" {
			file = string(kind)
		}
		tricks = append(tricks,
			trick{string(kind) + " left out", func(_ *testing.T, s *specs.Spec) { dropNamespace(s, kind) }, leftOut(kind)},
			trick{string(kind) + " of the host", func(_ *testing.T, s *specs.Spec) { joinNamespace(s, kind, "/proc/self/ns/"+file) }, []string{"linux.namespaces"}},
			trick{string(kind) + " of the host by a link", func(t *testing.T, s *specs.Spec) {
				joinNamespace(s, kind, linkTo(t, "/proc/self/ns/"+file))
			}, []string{"linux.namespaces"}},
			trick{string(kind) + " of another process", func(t *testing.T, s *specs.Spec) {
				joinNamespace(s, kind, "/proc/"+strconv.Itoa(namespaceHolder(t, allNamespaces))+"/ns/"+file)
			}, []string{"linux.namespaces"}},
			trick{string(kind) + " that is another kind", func(t *testing.T, s *specs.Spec) {
				joinNamespace(s, kind, "/proc/"+strconv.Itoa(namespaceHolder(t, allNamespaces))+"/ns/time")
			}, []string{"linux.namespaces"}},
		)
	}
	tricks = append(tricks,
		trick{"time offsets", linux(func(l *specs.Linux) {
			l.Namespaces = append(l.Namespaces, specs.LinuxNamespace{Type: specs.TimeNamespace})
			l.TimeOffsets = map[string]specs.LinuxTimeOffset{"monotonic": {Secs: 100}}
		}), []string{"linux."}},
		trick{"user namespace of root", func(_ *testing.T, s *specs.Spec) {
			s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
			whole := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 0, Size: 1 << 31}}
			s.Linux.UIDMappings, s.Linux.GIDMappings = whole, whole
		}, nil},
		trick{"one twice", linux(func(l *specs.Linux) {
			l.Namespaces = append(l.Namespaces, specs.LinuxNamespace{Type: specs.PIDNamespace, Path: "/proc/self/ns/pid"})
		}), []string{"linux.namespaces"}},
	)
	failAll(t, tricks, harness.SoftSage, harness.SoftAgent)
	t.Run("those that the host shares", func(t *testing.T) {
		shared := harness.SoftAgent + "shared_namespaces: [network, ipc, uts, pid]\n"
		for _, c := range tricks {
			if c.name != "" && !isOfAnother(c.name) {
				t.Run(c.name, func(t *testing.T) { c.fails(t, shared) })
			}
		}
	})
}

// leftOut: engines leave the cgroup namespace out where they do not mean it, so
// that one is given.
func leftOut(kind specs.LinuxNamespaceType) []string {
	if kind == specs.CgroupNamespace {
		return nil
	}
	return []string{"linux.namespaces"}
}

// isOfAnother are the tricks that a host may allow.
func isOfAnother(name string) bool {
	for _, kind := range []string{"network", "ipc", "uts", "pid"} {
		if name == kind+" of another process" {
			return true
		}
	}
	return false
}

const allNamespaces = unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP

func dropNamespace(s *specs.Spec, kind specs.LinuxNamespaceType) {
	var kept []specs.LinuxNamespace
	for _, n := range s.Linux.Namespaces {
		if n.Type != kind {
			kept = append(kept, n)
		}
	}
	s.Linux.Namespaces = kept
}

// TestBundleHooks: a hook is a program of the bundle's choice, as root on the
// host.
//
// Proves: S-045.
func TestBundleHooks(t *testing.T) {
	hook := func(edit func(*specs.Hooks, []specs.Hook)) func(*testing.T, *specs.Spec) {
		return func(t *testing.T, s *specs.Spec) {
			proof := filepath.Join(harness.TempDir(t), "ran")
			s.Hooks = &specs.Hooks{}
			edit(s.Hooks, []specs.Hook{{Path: "/bin/touch", Args: []string{"touch", proof}}})
			t.Cleanup(func() {
				if _, err := os.Stat(proof); err == nil {
					t.Error("the hook ran on the host")
				}
			})
		}
	}
	failAll(t, []trick{
		//nolint:staticcheck // Deprecated, and still run.
		{"prestart", hook(func(h *specs.Hooks, l []specs.Hook) { h.Prestart = l }), []string{"hooks"}},
		{"createRuntime", hook(func(h *specs.Hooks, l []specs.Hook) { h.CreateRuntime = l }), []string{"hooks"}},
		{"createContainer", hook(func(h *specs.Hooks, l []specs.Hook) { h.CreateContainer = l }), []string{"hooks"}},
		{"startContainer", hook(func(h *specs.Hooks, l []specs.Hook) { h.StartContainer = l }), []string{"hooks"}},
		{"poststart", hook(func(h *specs.Hooks, l []specs.Hook) { h.Poststart = l }), []string{"hooks"}},
		{"poststop", hook(func(h *specs.Hooks, l []specs.Hook) { h.Poststop = l }), []string{"hooks"}},
	}, harness.SoftSage, harness.SoftAgent+"hooks: [/bin/true]\n")
}

// TestBundleFields is everything else that a bundle can say.
func TestBundleFields(t *testing.T) {
	huge, minus := int64(1<<42), int64(-1)
	failAll(t, []trick{
		{"propagation to the host", linux(func(l *specs.Linux) { l.RootfsPropagation = "shared" }), nil},
		{"propagation both ways", linux(func(l *specs.Linux) { l.RootfsPropagation = "rshared" }), nil},
		{"network device of the host", linux(func(l *specs.Linux) { l.NetDevices = map[string]specs.LinuxNetDevice{"lo": {}} }), []string{"linux.netDevices"}},
		{"personality", linux(func(l *specs.Linux) { l.Personality = &specs.LinuxPersonality{Domain: "LINUX32"} }), []string{"linux.personality"}},
		{"label of the mounts", linux(func(l *specs.Linux) { l.MountLabel = "system_u:object_r:unlabeled_t:s0" }), nil},
		{"sysctl of the kernel", sysctl("kernel.core_pattern", "|/bin/sh"), []string{"linux.sysctl"}},
		{"sysctl of modules", sysctl("kernel.modprobe", "/x"), []string{"linux.sysctl"}},
		{"sysctl of routes", sysctl("net.ipv4.conf.all.route_localnet", "1"), []string{"linux.sysctl"}},
		{"sysctl of forwarding", sysctl("net.ipv4.ip_forward", "1"), []string{"linux.sysctl"}},
		{"sysctl with slashes", sysctl("kernel/core_pattern", "x"), []string{"linux.sysctl"}},
		{"sysctl of user namespaces", sysctl("user.max_user_namespaces", "1000"), []string{"linux.sysctl"}},
		{"device", linux(func(l *specs.Linux) {
			l.Devices = []specs.LinuxDevice{{Path: "/dev/kmsg", Type: "c", Major: 1, Minor: 11}}
		}), []string{"linux.devices"}},
		{"device under another name", linux(func(l *specs.Linux) {
			l.Devices = []specs.LinuxDevice{{Path: "/dev/null", Type: "b", Major: 254, Minor: 0}}
		}), []string{"linux.devices"}},
		{"device outside dev", linux(func(l *specs.Linux) {
			l.Devices = []specs.LinuxDevice{{Path: "/etc/disk", Type: "b", Major: 254, Minor: 0}}
		}), []string{"linux.devices"}},
		{"all devices", resources(func(r *specs.LinuxResources) { r.Devices = []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}} }), nil},
		{"memory above the ceiling", resources(func(r *specs.LinuxResources) { r.Memory = &specs.LinuxMemory{Limit: &huge} }), nil},
		{"swap", resources(func(r *specs.LinuxResources) { r.Memory = &specs.LinuxMemory{Swap: &minus} }), nil},
		{"cgroup files by name", resources(func(r *specs.LinuxResources) { r.Unified = map[string]string{"memory.max": "max"} }), nil},
		{"cgroup files elsewhere", resources(func(r *specs.LinuxResources) { r.Unified = map[string]string{"../../cgroup.procs": "1"} }), []string{"linux.resources.unified"}},
		{"huge pages", resources(func(r *specs.LinuxResources) {
			r.HugepageLimits = []specs.LinuxHugepageLimit{{Pagesize: "../../x", Limit: 1}}
		}), nil},
		{"spared by the OOM killer", process(func(p *specs.Process) { p.OOMScoreAdj = new(int); *p.OOMScoreAdj = -1000 }), nil},
		{"real time", process(func(p *specs.Process) { p.Scheduler = &specs.Scheduler{Policy: specs.SchedFIFO, Priority: 99} }), []string{"process.scheduler"}},
		{"real time for disks", process(func(p *specs.Process) {
			p.IOPriority = &specs.LinuxIOPriority{Class: specs.IOPRIO_CLASS_RT}
		}), []string{"process.ioPriority"}},
		{"unknown limit", process(func(p *specs.Process) { p.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_NEW", Hard: 1, Soft: 1}} }), nil},
		{"group of root beside another", process(func(p *specs.Process) {
			p.User = specs.User{UID: 1001, GID: 1001, AdditionalGids: []uint32{0}}
		}), []string{"process.user.additionalGids"}},
		{"unknown capability", process(func(p *specs.Process) { p.Capabilities.Bounding = []string{"CAP_EVERYTHING"} }), nil},
		{"unmasked", linux(func(l *specs.Linux) { l.MaskedPaths, l.ReadonlyPaths = []string{}, []string{} }), nil},
		{"mask of nothing that is there", linux(func(l *specs.Linux) { l.MaskedPaths = []string{"/proc/../x", "relative"} }), nil},
		{"everything that is bare", func(_ *testing.T, s *specs.Spec) { bare(s) }, nil},
	}, harness.SoftSage, harness.SoftAgent)
}

func sysctl(name, value string) func(*testing.T, *specs.Spec) {
	return linux(func(l *specs.Linux) { l.Sysctl = map[string]string{name: value} })
}

func resources(edit func(*specs.LinuxResources)) func(*testing.T, *specs.Spec) {
	return linux(func(l *specs.Linux) {
		l.Resources = &specs.LinuxResources{}
		edit(l.Resources)
	})
}

// TestUnknownFields: what is in none of the specification's types may mean
// something to a library that is newer than this.
func TestUnknownFields(t *testing.T) {
	for _, object := range []string{`"linux":`, `"process":`, `"user":`, `"capabilities":`} {
		t.Run("in "+object, func(t *testing.T) {
			r := harness.NewRuntimeWith(t, harness.SoftSage)
			b := harness.NewBundle(t, harness.Args("true"))
			text := readText(t, filepath.Join(b.Dir, "config.json"))
			text = strings.Replace(text, object+"{", object+`{"newField":true,`, 1)
			b.WriteRaw(t, []byte(text))
			res := r.Run(t, "run", "--bundle", b.Dir, harness.NewID())
			refused(t, r, res, denied, "newField")
		})
	}
}
