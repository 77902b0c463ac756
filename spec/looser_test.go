package spec_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/spec"
)

// ceiling is the loosest that a generated host allows, kept apart from the code
// under test: the policy's own fields, and what a policy has no field for.
type ceiling struct {
	spec.Policy

	modes   []spec.NetworkMode
	anyHost bool
}

// looser says for every field of a policy when its value is looser than the
// ceiling. A new field has none and fails TestLooserIsComplete, until somebody
// has thought about it.
var looser = map[string]func(got spec.Policy, most ceiling) bool{
	"Profile": func(got spec.Policy, most ceiling) bool { return got.Profile != most.Profile },
	"Compat":  func(got spec.Policy, _ ceiling) bool { return got.Compat },

	"Resources.CPUQuota": func(got spec.Policy, most ceiling) bool {
		return above(got.Resources.CPUQuota, most.Resources.CPUQuota)
	},
	"Resources.MemoryBytes": func(got spec.Policy, most ceiling) bool {
		return above(got.Resources.MemoryBytes, most.Resources.MemoryBytes)
	},
	"Resources.DiskBytes": func(got spec.Policy, most ceiling) bool {
		return above(got.Resources.DiskBytes, most.Resources.DiskBytes)
	},
	"Resources.MaxProcesses": func(got spec.Policy, most ceiling) bool {
		return above(got.Resources.MaxProcesses, most.Resources.MaxProcesses)
	},
	"Resources.RequireHardLimits": func(got spec.Policy, most ceiling) bool {
		return most.Resources.RequireHardLimits && !got.Resources.RequireHardLimits
	},

	"Network.Mode": func(got spec.Policy, most ceiling) bool {
		return got.Network.Mode != spec.NetworkNone && !slices.Contains(most.modes, got.Network.Mode)
	},
	"Network.AllowedHosts": looserHosts,
	"Network.AllowedPorts": func(got spec.Policy, most ceiling) bool {
		return beyond(got.Network.AllowedPorts, most.Network.AllowedPorts)
	},
	"Network.AllowedSchemes": func(got spec.Policy, most ceiling) bool {
		return beyond(got.Network.AllowedSchemes, most.Network.AllowedSchemes)
	},
	"Network.ProxyURL": func(got spec.Policy, most ceiling) bool {
		return got.Network.ProxyURL != most.Network.ProxyURL && got.Network.Mode == spec.NetworkProxy
	},
	"Network.DenyPrivateNetworks": func(got spec.Policy, most ceiling) bool {
		return most.Network.DenyPrivateNetworks && !got.Network.DenyPrivateNetworks
	},
	"Network.MaxWallTimeSeconds": func(got spec.Policy, most ceiling) bool {
		return above(got.Network.MaxWallTimeSeconds, most.Network.MaxWallTimeSeconds)
	},
	"Network.MaxRequestBodyBytes": func(got spec.Policy, most ceiling) bool {
		return above(got.Network.MaxRequestBodyBytes, most.Network.MaxRequestBodyBytes)
	},
	"Network.MaxResponseBytes": func(got spec.Policy, most ceiling) bool {
		return above(got.Network.MaxResponseBytes, most.Network.MaxResponseBytes)
	},
	"Network.Listen": func(got spec.Policy, most ceiling) bool {
		order := []spec.Listen{spec.ListenDeny, spec.ListenLoopback, spec.ListenAny}
		return slices.Index(order, got.Network.Listen) > slices.Index(order, most.Network.Listen)
	},
	"Network.UnixSockets": func(got spec.Policy, most ceiling) bool { return got.Network.UnixSockets && !most.Network.UnixSockets },
	"Network.HostNetwork": func(got spec.Policy, most ceiling) bool { return got.Network.HostNetwork && !most.Network.HostNetwork },

	"Process.Capabilities": func(got spec.Policy, most ceiling) bool {
		return beyond(got.Process.Capabilities, most.Process.Capabilities)
	},
	"Process.AllowPtrace": func(got spec.Policy, most ceiling) bool { return got.Process.AllowPtrace && !most.Process.AllowPtrace },
	"Process.AllowNoRandomize": func(got spec.Policy, most ceiling) bool {
		return got.Process.AllowNoRandomize && !most.Process.AllowNoRandomize
	},
	"Process.RequireNonRoot": func(got spec.Policy, most ceiling) bool {
		return most.Process.RequireNonRoot && !got.Process.RequireNonRoot
	},
	"Process.ExecutionUID": func(got spec.Policy, most ceiling) bool {
		return !reflect.DeepEqual(got.Process.ExecutionUID, most.Process.ExecutionUID)
	},
	"Process.ExecutionGID": func(got spec.Policy, most ceiling) bool {
		return !reflect.DeepEqual(got.Process.ExecutionGID, most.Process.ExecutionGID)
	},
	"Process.MaxOpenFiles": func(got spec.Policy, most ceiling) bool {
		return got.Process.MaxOpenFiles == 0 || got.Process.MaxOpenFiles > most.Process.MaxOpenFiles
	},
	"Process.MaxFileBytes": func(got spec.Policy, most ceiling) bool {
		limit := uint64(got.Resources.DiskBytes)
		if most.Process.MaxFileBytes != 0 {
			limit = min(limit, most.Process.MaxFileBytes)
		}
		return got.Process.MaxFileBytes == 0 || got.Process.MaxFileBytes > limit
	},
	"Process.CommandPath": func(got spec.Policy, most ceiling) bool { return got.Process.CommandPath != most.Process.CommandPath },
	"Process.AllowedEnv": func(got spec.Policy, most ceiling) bool {
		return most.Process.AllowedEnv != nil && (got.Process.AllowedEnv == nil || beyond(got.Process.AllowedEnv, most.Process.AllowedEnv))
	},
	"Process.ForceEnv": func(got spec.Policy, most ceiling) bool {
		return !slices.Equal(got.Process.ForceEnv, most.Process.ForceEnv)
	},

	"Files.ReadonlyRoot": func(got spec.Policy, most ceiling) bool { return most.Files.ReadonlyRoot && !got.Files.ReadonlyRoot },
	"Files.ReadonlyProc": func(got spec.Policy, most ceiling) bool { return most.Files.ReadonlyProc && !got.Files.ReadonlyProc },
	"Files.ReadPaths": func(got spec.Policy, most ceiling) bool {
		return !slices.Equal(got.Files.ReadPaths, most.Files.ReadPaths)
	},
	"Files.WritePaths": func(got spec.Policy, most ceiling) bool {
		return !slices.Equal(got.Files.WritePaths, most.Files.WritePaths)
	},
	"Files.ProtectedPaths": func(got spec.Policy, most ceiling) bool {
		return beyond(most.Files.ProtectedPaths, got.Files.ProtectedPaths)
	},
	"Files.Devices": func(got spec.Policy, most ceiling) bool { return !slices.Equal(got.Files.Devices, most.Files.Devices) },
	"Files.SharedNamespaces": func(got spec.Policy, most ceiling) bool {
		return !slices.Equal(got.Files.SharedNamespaces, most.Files.SharedNamespaces)
	},
	"Files.RefusePrivileged": func(got spec.Policy, most ceiling) bool {
		return most.Files.RefusePrivileged && !got.Files.RefusePrivileged
	},
	"Files.Hooks": func(got spec.Policy, most ceiling) bool { return !slices.Equal(got.Files.Hooks, most.Files.Hooks) },
	"Files.InitBinaries": func(got spec.Policy, most ceiling) bool {
		return !slices.Equal(got.Files.InitBinaries, most.Files.InitBinaries)
	},
	"Files.RequireAppArmor": func(got spec.Policy, most ceiling) bool {
		return most.Files.RequireAppArmor && !got.Files.RequireAppArmor
	},

	"TimeoutSeconds": func(got spec.Policy, most ceiling) bool {
		return most.TimeoutSeconds != 0 && above(got.TimeoutSeconds, most.TimeoutSeconds)
	},
}

// above: 0 would be no limit to whoever enforces it.
func above(got, most int64) bool { return got <= 0 || got > most }

func beyond[T comparable](got, most []T) bool {
	return slices.ContainsFunc(got, func(v T) bool { return !slices.Contains(most, v) })
}

// witnesses are hosts of which a list of patterns allows some: two lists are
// compared by what they let through, not by the code that compares patterns.
var witnesses = []string{
	"a.org", "x.a.org", "y.x.a.org", "b.example.com", "x.b.example.com", "example.com", "evila.org", "192.0.2.1", "other.net",
}

func lets(patterns []string, host string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		below, wild := strings.CutPrefix(p, "*")
		return p == host || wild && strings.HasSuffix(host, below)
	})
}

func looserHosts(got spec.Policy, most ceiling) bool {
	for _, host := range witnesses {
		// The only mode in which no list means no limit; in the others where
		// hosts count for nothing, the mode itself is compared.
		open := got.Network.Mode == spec.NetworkProxy && len(got.Network.AllowedHosts) == 0
		allowed := lets(most.Network.AllowedHosts, host) || most.anyHost && host != "192.0.2.1"
		if (open && !most.anyHost || lets(got.Network.AllowedHosts, host)) && !allowed {
			return true
		}
	}
	return false
}

func TestLooserIsComplete(t *testing.T) {
	var fields []string
	var walk func(reflect.Type, string)
	walk = func(typ reflect.Type, prefix string) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Type.Kind() == reflect.Struct {
				walk(f.Type, prefix+f.Name+".")
				continue
			}
			fields = append(fields, prefix+f.Name)
		}
	}
	walk(reflect.TypeFor[spec.Policy](), "")
	for _, field := range fields {
		if looser[field] == nil {
			t.Errorf("Policy.%s: nothing says when it is looser than the host", field)
		}
	}
	if len(fields) != len(looser) {
		t.Errorf("got %d fields, but rules for %d", len(fields), len(looser))
	}
}

// dice makes hosts and bundles, the same for the same seed.
type dice struct{ *rand.Rand }

func (d dice) coin() bool { return d.IntN(2) == 0 }

// upTo gives a number and one that is at least it.
func (d dice) upTo(low, high int64) (int64, int64) {
	n := low + d.Int64N(high-low)
	return n, n + d.Int64N(high-n+1)
}

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// some gives a part of a list, in its order.
func some[T any](d dice, from []T) []T {
	out := []T{}
	for _, v := range from {
		if d.coin() {
			out = append(out, v)
		}
	}
	return out
}

var (
	patterns     = []string{"*.a.org", "a.org", "x.a.org", "*.x.a.org", "*.b.example.com", "b.example.com", "192.0.2.1", "other.net"}
	capabilities = []string{"CAP_CHOWN", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"}
	variables    = []string{"HOME", "LANG", "PATH"}
	allPorts     = []uint16{22, 80, 443, 8443}
	allSchemes   = []string{"http", "https"}
	allPaths     = []string{"/w/.git", "/w/.hg", "/w/x"}
)

// written collects a profile's keys, to be a block of JSON.
type written map[string]map[string]any

func (w written) put(key string, v any) {
	group, name, nested := strings.Cut(key, ".")
	if !nested {
		group, name = "", key
	}
	if w[group] == nil {
		w[group] = map[string]any{}
	}
	w[group][name] = v
}

func (w written) block() map[string]any {
	out := map[string]any{}
	for group, keys := range w {
		if group == "" {
			for name, v := range keys {
				out[name] = v
			}
			continue
		}
		out[group] = keys
	}
	return out
}

// host makes a configuration with one profile of its own, and the loosest
// policy that this profile is meant to give.
func (d dice) host(t *testing.T) (text string, most ceiling) {
	t.Helper()
	defaults, limits := written{}, written{}
	most.Profile = "p"
	d.resources(defaults, limits, &most)
	d.network(defaults, limits, &most)
	d.process(defaults, &most)
	d.files(defaults, &most)
	top := map[string]any{
		"version": 1, "default_profile": "p",
		"profiles": map[string]any{"p": map[string]any{"extends": pick(d, "sage", "agent", "service"), "defaults": defaults.block(), "limits": limits.block()}},
	}
	if d.coin() {
		uid := uint32(1 + d.IntN(1000))
		most.Process.ExecutionUID, most.Process.ExecutionGID = &uid, &uid
		top["linux_execution_uid"], top["linux_execution_gid"] = uid, uid
	}
	if d.coin() {
		most.Process.CommandPath, most.Files.WritePaths, most.Files.ReadPaths = "/bin", []string{"/srv/w"}, []string{"/opt/r"}
		top["command_path"], top["write_paths"], top["read_paths"] = "/bin", []string{"/srv/w"}, []string{"/opt/r"}
		most.Files.Devices = []spec.Device{{Path: "/dev/nvidia0", Type: "c", Major: 195}}
		top["devices"] = []map[string]any{{"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0}}
		most.Files.SharedNamespaces, most.Files.Hooks, most.Files.InitBinaries = []string{"ipc"}, []string{"/bin/h"}, []string{"/bin/i"}
		top["shared_namespaces"], top["hooks"], top["init_binaries"] = []string{"ipc"}, []string{"/bin/h"}, []string{"/bin/i"}
	}
	return asJSON(t, top), most
}

func (d dice) resources(defaults, limits written, most *ceiling) {
	for _, r := range []struct {
		key   string
		least int64
		scale int64
		into  *int64
	}{
		{"resources.cpu_percent", 1, 1000, &most.Resources.CPUQuota},
		{"resources.memory_mb", 1, 1 << 20, &most.Resources.MemoryBytes},
		{"resources.disk_mb", 1, 1 << 20, &most.Resources.DiskBytes},
		{"resources.max_processes", 4, 1, &most.Resources.MaxProcesses},
	} {
		n, limit := d.upTo(r.least, 1000)
		defaults.put(r.key, n)
		limits.put(r.key, limit)
		*r.into = limit * r.scale
	}
	most.Resources.RequireHardLimits = d.coin()
	defaults.put("resources.require_hard_limits", most.Resources.RequireHardLimits)
	if d.coin() {
		n, limit := d.upTo(1, 1000)
		defaults.put("timeout_seconds", n)
		limits.put("timeout_seconds", limit)
		most.TimeoutSeconds = limit
	} else {
		defaults.put("timeout_seconds", 0)
		limits.put("timeout_seconds", 0)
	}
}

func (d dice) network(defaults, limits written, most *ceiling) {
	n := &most.Network
	most.modes = some(d, []spec.NetworkMode{spec.NetworkNone, spec.NetworkAllowlist, spec.NetworkProxy, spec.NetworkUnrestricted})
	mode := pick(d, append(most.modes, spec.NetworkNone)...)
	open := slices.Contains(most.modes, spec.NetworkUnrestricted)
	n.DenyPrivateNetworks = !open && d.coin()
	hosts := some(d, patterns)
	most.anyHost = open || d.coin()
	n.AllowedHosts = hosts
	switch {
	case most.anyHost:
		limits.put("network.allowed_hosts", []string{"*"})
		n.AllowedHosts = nil
		hosts = slices.DeleteFunc(hosts, func(h string) bool { return h == "192.0.2.1" })
	case mode == spec.NetworkProxy && len(hosts) == 0:
		hosts = []string{"other.net"}
		fallthrough
	default:
		n.AllowedHosts = hosts
		limits.put("network.allowed_hosts", hosts)
	}
	if mode == spec.NetworkUnrestricted {
		hosts = []string{}
	}
	limits.put("network.modes", most.modes)
	limits.put("network.deny_private_networks", n.DenyPrivateNetworks)
	defaults.put("network.mode", mode)
	defaults.put("network.allowed_hosts", hosts)
	defaults.put("network.deny_private_networks", n.DenyPrivateNetworks || mode != spec.NetworkUnrestricted && d.coin())
	if slices.Contains(most.modes, spec.NetworkProxy) && mode != spec.NetworkAllowlist {
		n.ProxyURL = "http://p.example:3128"
		defaults.put("network.proxy_url", n.ProxyURL)
	} else if slices.Contains(most.modes, spec.NetworkProxy) {
		// With the mode allowlist a default has no proxy, so that one cannot be
		// among the modes.
		most.modes = slices.DeleteFunc(most.modes, func(m spec.NetworkMode) bool { return m == spec.NetworkProxy })
		limits.put("network.modes", most.modes)
	}
	d.connections(defaults, limits, n)
}

func (d dice) connections(defaults, limits written, n *spec.Network) {
	n.AllowedPorts, n.AllowedSchemes = some(d, allPorts), some(d, allSchemes)
	limits.put("network.allowed_ports", n.AllowedPorts)
	limits.put("network.allowed_schemes", n.AllowedSchemes)
	defaults.put("network.allowed_ports", some(d, n.AllowedPorts))
	defaults.put("network.allowed_schemes", some(d, n.AllowedSchemes))
	for key, into := range map[string]*int64{
		"network.max_wall_time_seconds": &n.MaxWallTimeSeconds, "network.max_request_body_bytes": &n.MaxRequestBodyBytes,
		"network.max_response_bytes": &n.MaxResponseBytes,
	} {
		// The numbers of one key do not depend on the order of the map.
		number, limit := dice{rand.New(rand.NewPCG(d.seedOf(key), 1))}.upTo(1, 1000)
		defaults.put(key, number)
		limits.put(key, limit)
		*into = limit
	}
	listens := []spec.Listen{spec.ListenDeny, spec.ListenLoopback, spec.ListenAny}
	most := d.IntN(3)
	n.Listen = listens[most]
	limits.put("network.listen", n.Listen)
	defaults.put("network.listen", listens[d.IntN(most+1)])
	n.UnixSockets, n.HostNetwork = d.coin(), d.coin()
	defaults.put("network.unix_sockets", n.UnixSockets)
	limits.put("network.host_network", n.HostNetwork)
}

func (d dice) seedOf(key string) uint64 { return uint64(len(key)) * 7919 }

func (d dice) process(defaults written, most *ceiling) {
	p := &most.Process
	p.Capabilities, p.AllowPtrace, p.AllowNoRandomize = some(d, capabilities), d.coin(), d.coin()
	p.RequireNonRoot, p.MaxOpenFiles = d.coin(), uint64(16+d.IntN(1000))
	defaults.put("process.capabilities", p.Capabilities)
	defaults.put("process.allow_ptrace", p.AllowPtrace)
	defaults.put("process.allow_no_randomize", p.AllowNoRandomize)
	defaults.put("process.require_non_root", p.RequireNonRoot)
	defaults.put("process.max_open_files", p.MaxOpenFiles)
	if d.coin() {
		mib := 1 + d.IntN(1000)
		p.MaxFileBytes = uint64(mib) << 20
		defaults.put("process.max_file_mb", mib)
	}
	if d.coin() {
		p.AllowedEnv = some(d, variables)
		defaults.put("process.allowed_env_names", p.AllowedEnv)
	}
	if d.coin() {
		p.ForceEnv = []string{"TOKEN=x=y"}
		defaults.put("process.force_env", map[string]string{"TOKEN": "x=y"})
	}
}

func (d dice) files(defaults written, most *ceiling) {
	f := &most.Files
	f.ReadonlyRoot, f.ReadonlyProc, f.RequireAppArmor, f.ProtectedPaths = d.coin(), d.coin(), d.coin(), some(d, allPaths)
	f.RefusePrivileged = most.Resources.RequireHardLimits
	defaults.put("files.readonly_root", f.ReadonlyRoot)
	defaults.put("files.readonly_proc", f.ReadonlyProc)
	defaults.put("files.require_apparmor", f.RequireAppArmor)
	defaults.put("files.protected_paths", f.ProtectedPaths)
	if d.coin() {
		f.RefusePrivileged = d.coin()
		defaults.put("files.refuse_privileged", f.RefusePrivileged)
	}
}

// bundle asks for this and that, mostly in the right form.
func (d dice) bundle() *specs.Spec {
	number := func() string { return strconv.Itoa(1 + d.IntN(1100)) }
	flag := func() string { return strconv.FormatBool(d.coin()) }
	list := func(from []string) string {
		if part := some(d, from); len(part) > 0 && d.coin() {
			return strings.Join(part, ",")
		}
		text, _ := json.Marshal(some(d, from))
		return string(text)
	}
	text := map[string]func() string{
		"profile":               func() string { return pick(d, "p", "p", "p", "sage", "compat") },
		"network.mode":          func() string { return pick(d, "none", "allowlist", "proxy", "unrestricted") },
		"network.listen":        func() string { return pick(d, "deny", "loopback", "any") },
		"network.proxy_url":     func() string { return pick(d, "http://p.example:3128", "http://q.example:3128") },
		"network.allowed_hosts": func() string { return list(patterns) }, "network.allowed_schemes": func() string { return list(allSchemes) },
		"network.allowed_ports":     func() string { return pick(d, "[]", "443", "22,80", "[80,8443]", "443,443") },
		"process.capabilities":      func() string { return list(capabilities) },
		"process.allowed_env_names": func() string { return list(variables) },
		"files.protected_paths":     func() string { return list(allPaths) },
		"policy_digest":             func() string { return strings.Repeat("0", 64) },
	}
	for _, key := range []string{
		"resources.cpu_percent", "resources.memory_mb", "resources.disk_mb", "resources.max_processes", "network.max_wall_time_seconds",
		"network.max_request_body_bytes", "network.max_response_bytes", "process.max_open_files", "process.max_file_mb", "timeout_seconds",
	} {
		text[key] = number
	}
	s := &specs.Spec{Annotations: map[string]string{}, Root: &specs.Root{Readonly: d.IntN(4) == 0}}
	for _, key := range spec.AnnotationKeys() {
		if d.IntN(12) != 0 {
			continue
		}
		if text[key] == nil {
			text[key] = flag
		}
		s.Annotations[spec.AnnotationPrefix+key] = text[key]()
	}
	d.oci(s)
	return s
}

func (d dice) oci(s *specs.Spec) {
	if d.coin() {
		return
	}
	res := &specs.LinuxResources{}
	number := func(scale int64) *int64 {
		n := pick(d, -1, 0, int64(1+d.IntN(1100))*scale, int64(1+d.IntN(1100))*scale+1)
		return &n
	}
	if d.IntN(3) == 0 {
		res.Memory = &specs.LinuxMemory{Limit: number(1 << 20)}
	}
	if d.IntN(3) == 0 {
		period := pick(d, uint64(0), 1000, 100_000)
		res.CPU = &specs.LinuxCPU{Quota: number(1000), Period: &period}
	}
	if d.IntN(3) == 0 {
		res.Pids = &specs.LinuxPids{Limit: number(1)}
	}
	s.Linux = &specs.Linux{Resources: res}
}

// asAnnotations writes a policy as a bundle would ask for it. What annotations
// cannot say, none and sizes that an engine gave, stays away.
func asAnnotations(p spec.Policy) map[string]string {
	out := map[string]string{}
	put := func(key string, v any) { out[spec.AnnotationPrefix+key] = fmt.Sprint(v) }
	list := func(key string, v any) {
		text, _ := json.Marshal(v)
		put(key, string(text))
	}
	put("profile", p.Profile)
	put("policy_digest", p.Digest())
	put("resources.cpu_percent", p.Resources.CPUQuota/1000)
	put("resources.memory_mb", p.Resources.MemoryBytes>>20)
	put("resources.disk_mb", p.Resources.DiskBytes>>20)
	put("resources.max_processes", p.Resources.MaxProcesses)
	put("resources.require_hard_limits", p.Resources.RequireHardLimits)
	put("network.mode", p.Network.Mode)
	list("network.allowed_hosts", p.Network.AllowedHosts)
	list("network.allowed_ports", p.Network.AllowedPorts)
	list("network.allowed_schemes", p.Network.AllowedSchemes)
	if p.Network.ProxyURL != "" {
		put("network.proxy_url", p.Network.ProxyURL)
	}
	put("network.deny_private_networks", p.Network.DenyPrivateNetworks)
	put("network.max_wall_time_seconds", p.Network.MaxWallTimeSeconds)
	put("network.max_request_body_bytes", p.Network.MaxRequestBodyBytes)
	put("network.max_response_bytes", p.Network.MaxResponseBytes)
	put("network.listen", p.Network.Listen)
	put("network.unix_sockets", p.Network.UnixSockets)
	list("process.capabilities", p.Process.Capabilities)
	put("process.allow_ptrace", p.Process.AllowPtrace)
	put("process.allow_no_randomize", p.Process.AllowNoRandomize)
	put("process.require_non_root", p.Process.RequireNonRoot)
	put("process.max_open_files", p.Process.MaxOpenFiles)
	put("process.max_file_mb", p.Process.MaxFileBytes>>20)
	if p.Process.AllowedEnv != nil {
		list("process.allowed_env_names", p.Process.AllowedEnv)
	}
	put("files.readonly_root", p.Files.ReadonlyRoot)
	put("files.readonly_proc", p.Files.ReadonlyProc)
	list("files.protected_paths", p.Files.ProtectedPaths)
	put("files.refuse_privileged", p.Files.RefusePrivileged)
	put("files.require_apparmor", p.Files.RequireAppArmor)
	if p.TimeoutSeconds != 0 {
		put("timeout_seconds", p.TimeoutSeconds)
	}
	return out
}

// TestResolveProperties holds Resolve to what it is for, over hosts and bundles
// that nobody thought of: it never gives more than the host, it changes
// nothing, it says the same twice, and its own answer asks for itself.
//
// Proves: S-020, S-034, G-27, C-07.
func TestResolveProperties(t *testing.T) {
	const hosts, bundles = 300, 30
	accepted, refused := 0, 0
	for seed := range uint64(hosts) {
		d := dice{rand.New(rand.NewPCG(seed, 0))}
		text, most := d.host(t)
		h := parse(t, text)
		for n := range bundles {
			s := d.bundle()
			before := asJSON(t, s)
			r, err := spec.Resolve(h, s)
			if after := asJSON(t, s); after != before {
				t.Fatalf("host %d, bundle %d: the bundle changed from %s to %s", seed, n, before, after)
			}
			if err != nil {
				refused++
				if !reflect.DeepEqual(r, spec.Resolution{}) {
					t.Fatalf("host %d, bundle %d: got a policy beside the error %v", seed, n, err)
				}
				continue
			}
			accepted++
			if r.Policy.Profile == "p" {
				checkNotLooser(t, r.Policy, most, s)
			}
			checkIdempotent(t, h, s, r)
		}
		if !reflect.DeepEqual(parse(t, text), h) {
			t.Fatalf("host %d changed:\n%s", seed, text)
		}
	}
	if accepted < hosts*bundles/10 || refused < hosts*bundles/10 {
		t.Errorf("got %d policies and %d refusals of %d: too few of either to show anything", accepted, refused, hosts*bundles)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func checkNotLooser(t *testing.T, got spec.Policy, most ceiling, s *specs.Spec) {
	t.Helper()
	for field, isLooser := range looser {
		if isLooser(got, most) {
			t.Fatalf("%s is looser than the host allows\nannotations: %v\ngot:  %+v\nmost: %+v", field, s.Annotations, got, most)
		}
	}
}

func checkIdempotent(t *testing.T, h *spec.Host, s *specs.Spec, r spec.Resolution) {
	t.Helper()
	again, err := spec.Resolve(h, s)
	if err != nil || !reflect.DeepEqual(r, again) {
		t.Fatalf("the second time: got %v, %v, want %v", again, err, r)
	}
	p := r.Policy
	own := &specs.Spec{Annotations: asAnnotations(p)}
	if p.Resources.CPUQuota%1000 != 0 || p.Resources.MemoryBytes%(1<<20) != 0 {
		own.Linux = s.Linux
		delete(own.Annotations, spec.AnnotationPrefix+"resources.cpu_percent")
		delete(own.Annotations, spec.AnnotationPrefix+"resources.memory_mb")
		own.Annotations[spec.AnnotationPrefix+"policy_digest"] = p.Digest()
		if a, ok := s.Annotations[spec.AnnotationPrefix+"resources.cpu_percent"]; ok {
			own.Annotations[spec.AnnotationPrefix+"resources.cpu_percent"] = a
		}
		if a, ok := s.Annotations[spec.AnnotationPrefix+"resources.memory_mb"]; ok {
			own.Annotations[spec.AnnotationPrefix+"resources.memory_mb"] = a
		}
	}
	by, err := spec.Resolve(h, own)
	if err != nil {
		t.Fatalf("its own values as annotations: %v\npolicy: %+v", err, p)
	}
	if diff := cmp.Diff(p, by.Policy); diff != "" {
		t.Fatalf("its own values as annotations (-want +got):\n%s", diff)
	}
}
