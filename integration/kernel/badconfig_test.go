//go:build kernel

package kernel

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// badConfig is a config.json that must be refused.
type badConfig struct {
	name string
	// edit changes a good spec; raw changes its bytes after that.
	edit func(*specs.Spec)
	raw  func([]byte) []byte
	// want is runc's own phrase, as far as it is not the words of Go's JSON
	// package; names is what sage's message says besides.
	want, names string
	// stricter marks what runc lets pass and sage must not.
	stricter bool
}

var badConfigs = []badConfig{
	{name: "empty file", raw: always(""), names: "config.json"},
	{name: "null", raw: always("null"), want: "config cannot be null"},
	{name: "array", raw: always("[]"), want: "array", names: "config.json"},
	{name: "no field at all", raw: always("{}"), names: "config.json"},
	{name: "binary zeros", raw: always(strings.Repeat("\x00", 512)), want: "invalid character", names: "config.json"},
	{name: "cut short", raw: func(b []byte) []byte { return b[:len(b)/2] }, want: "unexpected", names: "config.json"},
	{name: "trailing garbage", raw: func(b []byte) []byte { return append(b, " garbage"...) }, names: "config.json", stricter: true},
	{name: "two documents", raw: func(b []byte) []byte { return append(b, b...) }, names: "config.json", stricter: true},
	{name: "nested 100000 deep", raw: always(`{"process":` + strings.Repeat("[", 1e5) + strings.Repeat("]", 1e5) + "}"), want: "exceeded max depth", names: "config.json"},
	{name: "unknown field nested 100000 deep", raw: always(`{"x":` + strings.Repeat("[", 1e5) + strings.Repeat("]", 1e5) + "}"), want: "exceeded max depth", names: "config.json"},

	{name: "args a string", raw: swap(`"args":["true"]`, `"args":"true"`), want: "process.args"},
	{name: "uid negative", raw: swap(`"uid":0`, `"uid":-1`), want: "process.user.uid"},
	{name: "uid a string", raw: swap(`"uid":0`, `"uid":"0"`), want: "process.user.uid"},
	{name: "mounts an object", raw: swap(`"mounts":[`, `"mounts":{},"x":[`), want: "mounts"},
	{name: "version a number", raw: swap(`"ociVersion":"`, `"ociVersion":1,"x":"`), want: "ociVersion"},

	{name: "version of the future", edit: func(s *specs.Spec) { s.Version = "99.0.0" }, names: "ociVersion", stricter: true},
	{name: "version a word", edit: func(s *specs.Spec) { s.Version = "banana" }, names: "ociVersion", stricter: true},
	{name: "no root", edit: func(s *specs.Spec) { s.Root = nil }, want: "root must be specified"},
	{name: "root missing", edit: func(s *specs.Spec) { s.Root.Path = "/nowhere" }, want: "invalid rootfs"},
	{name: "root a file", edit: func(s *specs.Spec) { s.Root.Path = "/etc/passwd" }, want: "not a directory", names: "root"},

	{name: "no process", edit: func(s *specs.Spec) { s.Process = nil }, want: "process property must not be empty"},
	{name: "no args", edit: func(s *specs.Spec) { s.Process.Args = nil }, want: "args must not be empty"},
	{name: "no such program", edit: harness.Args("/nowhere"), want: `exec: "/nowhere": stat /nowhere: no such file or directory`},
	{name: "no such name in PATH", edit: harness.Args("nowhere"), want: `exec: "nowhere": executable file not found in $PATH`},
	{name: "program a folder", edit: harness.Args("/etc"), want: `exec: "/etc": is a directory`},
	{name: "no cwd", edit: func(s *specs.Spec) { s.Process.Cwd = "" }, want: "Cwd property must not be empty"},
	{name: "relative cwd", edit: func(s *specs.Spec) { s.Process.Cwd = "tmp" }, want: "Cwd must be an absolute path"},
	{name: "env with a zero byte", edit: func(s *specs.Spec) { s.Process.Env = []string{"A=\x00"} }, want: "environment variable"},
	{name: "env without a value", edit: func(s *specs.Spec) { s.Process.Env = []string{"A"} }, want: "environment variable"},
	{name: "unknown rlimit", edit: rlimit("RLIMIT_BANANA", 1, 1), want: "wrong rlimit value: RLIMIT_BANANA"},
	{name: "rlimit above its maximum", edit: rlimit("RLIMIT_NOFILE", 2, 1), want: "error setting rlimit"},
	{name: "SELinux label", edit: func(s *specs.Spec) { s.Process.SelinuxLabel = "banana" }, want: "selinux label is specified in config"},

	{name: "unknown namespace", edit: namespaces("banana"), want: `namespace {"banana" ""} does not exist`},
	{name: "namespace twice", edit: namespaces("pid", "pid"), want: `duplicated ns {"pid" ""}`},
	{name: "host name on the host", edit: namespaces("mount", "pid"), want: "unable to set hostname without a private UTS namespace"},
	{name: "no linux section", edit: func(s *specs.Spec) { s.Linux = nil }, want: "private UTS namespace"},
	{name: "unknown propagation", edit: func(s *specs.Spec) { s.Linux.RootfsPropagation = "banana" }, want: "rootfsPropagation=banana is not supported"},
	{name: "sysctl of the host", edit: func(s *specs.Spec) { s.Linux.Sysctl = map[string]string{"kernel.banana": "1"} }, want: `sysctl "kernel.banana" is not in a separate kernel namespace`},
	{name: "unknown device type", edit: func(s *specs.Spec) { s.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/x", Type: "q"}} }, want: `invalid device type "q"`},
	{name: "unknown seccomp action", edit: seccomp(specs.LinuxSeccomp{DefaultAction: "SCMP_ACT_BANANA"}), want: "SCMP_ACT_BANANA is not a valid action for seccomp"},
	{name: "unknown seccomp architecture", edit: seccomp(specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Architectures: []specs.Arch{"BANANA"}}), want: "BANANA is not a valid arch for seccomp"},
	{name: "unknown file system", edit: mount("bananafs", "x"), want: `error mounting "x" to rootfs at "/tmp"`},
	{name: "bind of nothing", edit: mount("bind", "/nowhere", "bind"), want: "open /nowhere: no such file or directory"},
	{name: "no such hook", edit: func(s *specs.Spec) { s.Hooks = &specs.Hooks{CreateRuntime: []specs.Hook{{Path: "/nowhere"}}} }, want: "/nowhere: no such file or directory"},
	{name: "memory limit impossible", edit: memoryLimit(-5), want: "memory.limit_in_bytes"},
}

func TestBadConfig(t *testing.T) {
	for _, c := range badConfigs {
		t.Run(c.name, func(t *testing.T) {
			bundle := c.bundle(t)
			r := harness.NewRuntime(t)
			for _, verb := range []string{"create", "run"} {
				c.check(t, r, []string{verb, "--bundle", bundle.Dir, harness.NewID()})
			}
		})
	}
}

// bundle applies edit as values and raw as bytes, for what no spec can hold.
func (c *badConfig) bundle(t *testing.T) *harness.Bundle {
	t.Helper()
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		s.Process.Args = []string{"true"}
		if c.edit != nil {
			c.edit(s)
		}
	})
	if c.raw != nil {
		bundle.WriteRaw(t, c.raw(readConfig(t, bundle)))
	}
	return bundle
}

// check lets runc accept what only sage refuses, and lets sage use more words.
func (c *badConfig) check(t *testing.T, r *harness.Runtime, args []string) {
	t.Helper()
	reference := harness.IsRunc(t, r.Bin)
	if reference && c.stricter {
		return
	}
	res := r.Run(t, args...)
	showDifference(t, r, res, args)
	refused(t, r, res, 1)
	if !strings.Contains(said(res), c.want) || !reference && !strings.Contains(said(res), c.names) {
		t.Errorf("got %q, want runc's words %q and %q named", said(res), c.want, c.names)
	}
}

func TestNoConfig(t *testing.T) {
	r := harness.NewRuntime(t)
	res := r.Run(t, "run", "--bundle", harness.TempDir(t), harness.NewID())
	refused(t, r, res, 1)
	if want := "JSON specification file config.json not found"; !strings.Contains(said(res), want) {
		t.Errorf("got %q, want %q", res.Stderr, want)
	}
}

// TestUnreadableConfig needs another user: root reads everything.
func TestUnreadableConfig(t *testing.T) {
	r := runtimeOfUser(t)
	bundle := harness.NewBundle(t, nil)
	check(t, os.Chmod(filepath.Join(bundle.Dir, "config.json"), 0))
	res := unprivilegedRun(t, r, "run", "--bundle", bundle.Dir, harness.NewID())
	refused(t, r, res, 1)
	if want := "config.json: permission denied"; !strings.Contains(said(res), want) {
		t.Errorf("got %q, want %q", res.Stderr, want)
	}
}

const hugeSize, hugeMemory = 100 << 20, 300 << 20

// hugeFills are what makes a config huge, inside the quotes of a variable of the
// environment: parsers keep the three differently.
var hugeFills = map[string]struct{ head, repeat, tail string }{
	"one string":                 {"A=", "a", ""},
	"spaces":                     {`A=a",`, " ", `"B=b`},
	"many environment variables": {"", `A=","`, "A="},
}

// TestHugeConfig: a bundle's author must not be able to exhaust the host's
// memory through the runtime.
func TestHugeConfig(t *testing.T) {
	for name, fill := range hugeFills {
		t.Run(name, func(t *testing.T) {
			r := harness.NewRuntime(t)
			if harness.IsRunc(t, r.Bin) {
				t.Skip("runc takes 1.5 GiB and more than 30 seconds")
			}
			bundle := harness.NewBundle(t, func(s *specs.Spec) { s.Process.Env = []string{"HERE"} })
			stretch(t, bundle, fill.head, fill.repeat, fill.tail)
			res := r.Run(t, "run", "--bundle", bundle.Dir, harness.NewID())
			refused(t, r, res, 1)
			if !strings.Contains(res.Stderr, "config.json") || res.MaxRSS > hugeMemory {
				t.Errorf("got %s with %d MiB resident, want it to name config.json and at most %d MiB", res, res.MaxRSS>>20, hugeMemory>>20)
			}
			t.Logf("refused after %v with %d MiB resident", res.Took, res.MaxRSS>>20)
		})
	}
}

// stretch writes the config of bundle with text between head and tail in the
// place of HERE. In pieces: a child's greatest memory includes its parent's at
// the time of the fork, so this process must stay small.
func stretch(t *testing.T, bundle *harness.Bundle, head, text, tail string) {
	t.Helper()
	before, after, _ := strings.Cut(string(readConfig(t, bundle)), "HERE")
	f, err := os.Create(filepath.Join(bundle.Dir, "config.json"))
	check(t, err)
	defer f.Close()
	write := func(s string) {
		_, err := f.WriteString(s)
		check(t, err)
	}
	write(before + head)
	piece := strings.Repeat(text, 1<<20/len(text))
	for n := 0; n < hugeSize; n += len(piece) {
		write(piece)
	}
	write(tail + after)
}

// TestUnknownCapability is bad input that runc only warns of, and engines rely
// on that: they send names newer than the kernel.
func TestUnknownCapability(t *testing.T) {
	r := harness.NewRuntime(t)
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		s.Process.Args = []string{"true"}
		s.Process.Capabilities.Bounding = append(s.Process.Capabilities.Bounding, "CAP_BANANA")
	})
	res := r.Run(t, "run", "--bundle", bundle.Dir, harness.NewID())
	if want := "ignoring unknown or unavailable capabilities: [CAP_BANANA]"; res.Code != 0 || !strings.Contains(said(res), want) {
		t.Errorf("got %s, want exit status 0 and %q", res, want)
	}
}

func readConfig(t *testing.T, b *harness.Bundle) []byte {
	t.Helper()
	return []byte(readText(t, filepath.Join(b.Dir, "config.json")))
}

func always(text string) func([]byte) []byte {
	return func([]byte) []byte { return []byte(text) }
}

// swap panics rather than test nothing when the spec no longer holds the text.
func swap(text, by string) func([]byte) []byte {
	return func(b []byte) []byte {
		if !bytes.Contains(b, []byte(text)) {
			panic("no " + text + " in the spec")
		}
		return bytes.Replace(b, []byte(text), []byte(by), 1)
	}
}

// The edits below are named for the field that they spoil.

func rlimit(kind string, soft, hard uint64) func(*specs.Spec) {
	return func(s *specs.Spec) {
		s.Process.Rlimits = []specs.POSIXRlimit{{Type: kind, Soft: soft, Hard: hard}}
	}
}

func namespaces(kinds ...specs.LinuxNamespaceType) func(*specs.Spec) {
	return func(s *specs.Spec) {
		s.Linux.Namespaces = nil
		for _, k := range kinds {
			s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: k})
		}
	}
}

func seccomp(profile specs.LinuxSeccomp) func(*specs.Spec) {
	return func(s *specs.Spec) { s.Linux.Seccomp = &profile }
}

func mount(kind, source string, options ...string) func(*specs.Spec) {
	return func(s *specs.Spec) {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: "/tmp", Type: kind, Source: source, Options: options})
	}
}

func memoryLimit(bytes int64) func(*specs.Spec) {
	return func(s *specs.Spec) {
		s.Linux.Resources.Memory = &specs.LinuxMemory{Limit: &bytes}
	}
}
