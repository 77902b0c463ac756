package hardening

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

const (
	ext4Magic  = 0xef53
	tmpfsMagic = 0x01021994
	procMagic  = 0x9fa0
)

// loadBundle reads a config.json as an engine writes it. Those in testdata were
// recorded from Docker 29, containerd 2, nerdctl and Podman 4 on cgroup v1,
// with their seccomp profiles cut short and their roots where they are usually.
func loadBundle(t *testing.T, name string) *specs.Spec {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "bundles", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var s specs.Spec
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// plainFacts are those of a host where everything is what its path says.
func plainFacts(s *specs.Spec) Facts {
	f := Facts{Arch: "amd64", RootFS: "/srv/rootfs", CPUs: 2, Namespaces: map[specs.LinuxNamespaceType]NamespaceFacts{}}
	f.Egress = EgressFacts{Folder: "/run/sage/c/run", FolderAt: SocketFolder, ResolvConf: "/run/sage/c/resolv.conf", ResolvConfAt: ResolvConf, Port: 3128}
	for _, m := range s.Mounts {
		f.Mounts = append(f.Mounts, plainMount(m))
	}
	if s.Linux == nil {
		return f
	}
	for _, ns := range s.Linux.Namespaces {
		if ns.Path != "" {
			f.Namespaces[ns.Type] = NamespaceFacts{Kind: kinds[ns.Type]}
		}
	}
	return f
}

func plainMount(m specs.Mount) MountFacts {
	f := MountFacts{Destination: path.Clean("/" + m.Destination)}
	if o, err := parseOptions("", m.Options); err != nil || !o.bind {
		return f
	}
	f.Kind, f.Source, f.Magic = SourceDirectory, path.Clean("/"+m.Source), ext4Magic
	switch {
	case path.Base(f.Source) == "shm":
		f.Magic = tmpfsMagic
	case strings.HasPrefix(f.Destination, "/etc/") || path.Base(f.Destination) == ".containerenv" || strings.HasSuffix(f.Source, ".file"):
		f.Kind = SourceFile
	}
	return f
}

// strict is like the built-in profile sage, with soft limits.
func strict() spec.Policy {
	return spec.Policy{
		Profile:   "sage",
		Resources: spec.Resources{CPUQuota: 100_000, MemoryBytes: 1 << 30, DiskBytes: 4 << 30, MaxProcesses: 64},
		Network:   spec.Network{Mode: spec.NetworkNone, Listen: spec.ListenDeny},
		Process:   spec.Process{MaxOpenFiles: 1024},
		Files:     spec.Files{ReadonlyRoot: true, ReadonlyProc: true},
	}
}

// loose is like the built-in profile agent, for a host that lists things.
func loose() spec.Policy {
	p := strict()
	p.Profile = "agent"
	p.Network = spec.Network{Mode: spec.NetworkNone, Listen: spec.ListenLoopback, UnixSockets: true}
	p.Process.AllowPtrace, p.Process.AllowNoRandomize = true, true
	p.Files = spec.Files{
		WritePaths:       []string{"/srv/work"},
		SharedNamespaces: []string{"network", "ipc", "uts", "pid"},
		Hooks:            []string{"/usr/local/bin/nerdctl"},
		InitBinaries:     []string{"/usr/bin/docker-init.file"},
		Devices:          []spec.Device{{Path: "/dev/nvidia0", Type: "c", Major: 195, Minor: 0}},
	}
	return p
}

// bundle is the least that Apply accepts.
func bundle() *specs.Spec {
	s := &specs.Spec{
		Version: "1.3.0",
		Process: &specs.Process{Args: []string{"true"}, Cwd: "/", Env: []string{"PATH=/bin"}},
		Root:    &specs.Root{Path: "rootfs"},
		Linux:   &specs.Linux{},
	}
	for _, t := range []specs.LinuxNamespaceType{"pid", "network", "ipc", "uts", "mount", "cgroup"} {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: t})
	}
	return s
}

// outcome is one case of a table: what is done to a bundle, a policy and facts,
// and either what the error says or a look at the result.
type outcome struct {
	name   string
	bundle func(s *specs.Spec)
	policy func(p *spec.Policy)
	facts  func(f *Facts)
	denied string       // in the error, "" for none
	code   errcode.Code // of the error; PermissionDenied if absent
	check  func(t *testing.T, r Result)
}

func runCases(t *testing.T, base func() spec.Policy, cases []outcome) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, base()) })
	}
}

func (c outcome) run(t *testing.T, p spec.Policy) {
	t.Helper()
	s := bundle()
	if c.bundle != nil {
		c.bundle(s)
	}
	f := plainFacts(s)
	if c.policy != nil {
		c.policy(&p)
	}
	if c.facts != nil {
		c.facts(&f)
	}
	r, err := Apply(s, p, f)
	if c.denied != "" {
		c.wantError(t, err)
		return
	}
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
	if c.check != nil {
		c.check(t, r)
	}
}

func (c outcome) wantError(t *testing.T, err error) {
	t.Helper()
	want := c.code
	if want == "" {
		want = errcode.PermissionDenied
	}
	switch {
	case err == nil:
		t.Fatalf("got no error, want one with %q", c.denied)
	case !strings.Contains(err.Error(), c.denied):
		t.Fatalf("got %q, want %q in it", err, c.denied)
	case errcode.Of(err) != want:
		t.Fatalf("got code %q of %q, want %q", errcode.Of(err), err, want)
	}
}

// change finds what was done to a field.
func change(changes []Change, field string, action Action) (Change, bool) {
	for _, c := range changes {
		if c.Field == field && c.Action == action {
			return c, true
		}
	}
	return Change{}, false
}

func wantChange(t *testing.T, r Result, field string, action Action) {
	t.Helper()
	if _, ok := change(r.Changes, field, action); !ok {
		t.Errorf("got changes %+v, want one with %s %s", r.Changes, action, field)
	}
}

func mountAt(t *testing.T, s *specs.Spec, at string) specs.Mount {
	t.Helper()
	for i := range s.Mounts {
		if m := s.Mounts[len(s.Mounts)-1-i]; m.Destination == at {
			return m
		}
	}
	t.Fatalf("got no mount at %s in %v, want one", at, s.Mounts)
	return specs.Mount{}
}
