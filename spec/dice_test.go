package spec_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/spec"
)

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
	patterns     = []string{"*.a.org", "a.org", "x.a.org", "*.x.a.org", "*.b.example.com", "b.example.com", "192.0.2.1", "other.net", "https://a.org", "http://x.a.org:8443", "tcp://other.net:22", "*.a.org:443", "x.a.org:22", "*"}
	denials      = []string{"a.org", "*.x.a.org", "http://other.net", "192.0.2.1"}
	allDials     = []spec.Dial{spec.DialAuto, spec.DialEngine, spec.DialHost}
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
			maps.Copy(out, keys)
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
	d.openEnded(defaults, limits, "timeout_seconds", &most.TimeoutSeconds)
	d.openEnded(defaults, limits, "process.max_output_bytes", &most.Process.MaxOutputBytes)
}

// openEnded is for numbers of which 0 is none.
func (d dice) openEnded(defaults, limits written, key string, into *int64) {
	n, limit := int64(0), int64(0)
	if d.coin() {
		n, limit = d.upTo(1, 1000)
	}
	defaults.put(key, n)
	limits.put(key, limit)
	*into = limit
}

func (d dice) network(defaults, limits written, most *ceiling) {
	n := &most.Network
	most.modes = some(d, []spec.NetworkMode{spec.NetworkNone, spec.NetworkAllowlist, spec.NetworkProxy})
	if d.IntN(4) == 0 {
		most.modes = append(most.modes, spec.NetworkUnrestricted)
	}
	mode := pick(d, append(slices.Clone(most.modes), spec.NetworkNone)...)
	open := slices.Contains(most.modes, spec.NetworkUnrestricted)
	n.DenyPrivateNetworks = !open && d.coin()
	hosts := some(d, patterns)
	most.anyHost = open || d.coin()
	n.AllowedHosts = hosts
	switch {
	case most.anyHost:
		limits.put("network.allowed_hosts", []string{"*"})
		n.AllowedHosts = nil
		hosts = slices.DeleteFunc(hosts, func(h string) bool { return h == "192.0.2.1" || strings.Contains(h, ":") })
	case mode == spec.NetworkProxy && len(hosts) == 0:
		hosts = []string{"other.net"}
		fallthrough
	default:
		n.AllowedHosts = hosts
		limits.put("network.allowed_hosts", hosts)
		if mode != spec.NetworkProxy {
			hosts = pick(d, some(d, hosts), []string{})
		}
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
	d.proxy(defaults, limits, most, mode)
}

// proxy is for what the proxy does besides looking at hosts.
func (d dice) proxy(defaults, limits written, most *ceiling, mode spec.NetworkMode) {
	n := &most.Network
	if n.DeniedHosts = some(d, denials); mode == spec.NetworkUnrestricted {
		n.DeniedHosts = []string{}
	}
	n.Transparent, n.JavaToolOptions, n.ECH = d.coin(), true, pick(d, "refuse", "outer")
	most.dials = append(some(d, allDials), pick(d, allDials...))
	defaults.put("network.denied_hosts", n.DeniedHosts)
	defaults.put("network.transparent", n.Transparent)
	defaults.put("network.ech", pick(d, n.ECH, "refuse"))
	limits.put("network.ech", n.ECH)
	defaults.put("network.dial", pick(d, most.dials...))
	limits.put("network.dials", most.dials)
	d.openEnded(defaults, limits, "network.max_total_bytes", &n.MaxTotalBytes)
}

func (d dice) connections(defaults, limits written, n *spec.Network) {
	n.AllowedPorts, n.AllowedSchemes = some(d, allPorts), some(d, allSchemes)
	limits.put("network.allowed_ports", n.AllowedPorts)
	limits.put("network.allowed_schemes", n.AllowedSchemes)
	defaults.put("network.allowed_ports", some(d, n.AllowedPorts))
	defaults.put("network.allowed_schemes", some(d, n.AllowedSchemes))
	for key, into := range map[string]*int64{
		"network.max_wall_time_seconds": &n.MaxWallTimeSeconds, "network.max_request_body_bytes": &n.MaxRequestBodyBytes,
		"network.max_response_bytes": &n.MaxResponseBytes, "network.max_connections": &n.MaxConnections, "network.max_active": &n.MaxActive,
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
		"network.denied_hosts":      func() string { return list(denials) },
		"network.dial":              func() string { return string(pick(d, allDials...)) },
		"network.ech":               func() string { return pick(d, "refuse", "outer") },
		"network.allowed_ports":     func() string { return pick(d, "[]", "443", "22,80", "[80,8443]", "443,443") },
		"process.capabilities":      func() string { return list(capabilities) },
		"process.allowed_env_names": func() string { return list(variables) },
		"files.protected_paths":     func() string { return list(allPaths) },
		"policy_digest":             func() string { return strings.Repeat("0", 64) },
	}
	for _, key := range []string{
		"resources.cpu_percent", "resources.memory_mb", "resources.disk_mb", "resources.max_processes", "network.max_wall_time_seconds",
		"network.max_request_body_bytes", "network.max_response_bytes", "network.max_connections", "network.max_active", "network.max_total_bytes",
		"process.max_open_files", "process.max_file_mb", "process.max_output_bytes", "timeout_seconds",
	} {
		text[key] = number
	}
	s := &specs.Spec{Annotations: map[string]string{}, Root: &specs.Root{Readonly: d.IntN(4) == 0}}
	few := pick(d, 4, 12, 24, 24) // of how many keys one is given: many are mostly refused
	for _, key := range spec.AnnotationKeys() {
		if d.IntN(few) != 0 {
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
