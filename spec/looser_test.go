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
	dials   []spec.Dial
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
	"Network.DeniedHosts": func(got spec.Policy, most ceiling) bool {
		proxied := got.Network.Mode == spec.NetworkAllowlist || got.Network.Mode == spec.NetworkProxy
		return proxied && beyond(most.Network.DeniedHosts, got.Network.DeniedHosts)
	},
	"Network.MaxConnections": func(got spec.Policy, most ceiling) bool {
		return above(got.Network.MaxConnections, most.Network.MaxConnections)
	},
	"Network.MaxActive": func(got spec.Policy, most ceiling) bool { return above(got.Network.MaxActive, most.Network.MaxActive) },
	"Network.MaxTotalBytes": func(got spec.Policy, most ceiling) bool {
		return most.Network.MaxTotalBytes != 0 && above(got.Network.MaxTotalBytes, most.Network.MaxTotalBytes)
	},
	"Network.Transparent": func(got spec.Policy, most ceiling) bool { return got.Network.Transparent && !most.Network.Transparent },
	"Network.Dial": func(got spec.Policy, most ceiling) bool {
		return got.Network.Dial != "" && !slices.Contains(most.dials, got.Network.Dial)
	},
	"Network.ECH": func(got spec.Policy, most ceiling) bool {
		return got.Network.ECH == "outer" && most.Network.ECH != "outer"
	},
	"Network.Nameservers": func(got spec.Policy, most ceiling) bool {
		return beyond(got.Network.Nameservers, most.Network.Nameservers)
	},
	"Network.Reachable": func(got spec.Policy, most ceiling) bool {
		return beyond(got.Network.Reachable, most.Network.Reachable)
	},
	"Network.JavaToolOptions": func(got spec.Policy, most ceiling) bool {
		return got.Network.JavaToolOptions && !most.Network.JavaToolOptions
	},
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

	"Process.MaxOutputBytes": func(got spec.Policy, most ceiling) bool {
		return most.Process.MaxOutputBytes != 0 && above(got.Process.MaxOutputBytes, most.Process.MaxOutputBytes)
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

// witnesses are connections of which a list of rules allows some: two policies
// are compared by what they let through, not by the code that compares rules.
var witnesses = func() (all []witness) {
	for _, host := range []string{
		"a.org", "x.a.org", "y.x.a.org", "b.example.com", "x.b.example.com", "example.com", "evila.org", "192.0.2.1", "other.net",
	} {
		for _, scheme := range []string{"http", "https", "tcp"} {
			for _, port := range []string{"22", "80", "443", "8443"} {
				all = append(all, witness{scheme, host, port})
			}
		}
	}
	return all
}()

type witness struct{ scheme, host, port string }

// lets reads rules in a way of its own.
func (w witness) lets(n spec.Network) bool {
	return slices.ContainsFunc(n.AllowedHosts, func(rule string) bool {
		scheme, rest, has := strings.Cut(rule, "://")
		if !has {
			scheme, rest = "", rule
		}
		name, port, _ := strings.Cut(rest, ":")
		below, wild := strings.CutPrefix(name, "*")
		host := name == w.host || wild && strings.HasSuffix(w.host, below) && (below != "" || w.host != "192.0.2.1")
		return host && (scheme == w.scheme || scheme == "" && slices.Contains(n.AllowedSchemes, w.scheme)) &&
			(port == w.port || port == "" && slices.Contains(n.AllowedPorts, portOf(w.port)))
	})
}

func portOf(text string) uint16 {
	n, _ := strconv.ParseUint(text, 10, 16)
	return uint16(n)
}

func looserHosts(got spec.Policy, most ceiling) bool {
	every := func(n spec.Network) spec.Network {
		n.AllowedHosts = []string{"*"}
		return n
	}
	for _, w := range witnesses {
		// The only mode in which no list means no limit; in the others where
		// hosts count for nothing, the mode itself is compared.
		open := got.Network.Mode == spec.NetworkProxy && len(got.Network.AllowedHosts) == 0
		allowed := w.lets(most.Network) || most.anyHost && w.lets(every(most.Network))
		if (open && !most.anyHost || w.lets(got.Network)) && !allowed {
			return true
		}
	}
	return false
}

func TestLooserIsComplete(t *testing.T) {
	var fields []string
	var walk func(reflect.Type, string)
	walk = func(typ reflect.Type, prefix string) {
		for f := range typ.Fields() {
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
	list("network.denied_hosts", p.Network.DeniedHosts)
	put("network.transparent", p.Network.Transparent)
	if p.Network.Dial != "" {
		put("network.dial", p.Network.Dial)
		put("network.ech", p.Network.ECH)
	}
	put("network.max_connections", p.Network.MaxConnections)
	put("network.max_active", p.Network.MaxActive)
	if p.Network.MaxTotalBytes != 0 {
		put("network.max_total_bytes", p.Network.MaxTotalBytes)
	}
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
	if p.Process.MaxOutputBytes != 0 {
		put("process.max_output_bytes", p.Process.MaxOutputBytes)
	}
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
// Proves: G-27.
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
			checkConsistent(t, r.Policy)
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

// checkConsistent is about values that no order compares.
func checkConsistent(t *testing.T, p spec.Policy) {
	t.Helper()
	n := p.Network
	used := n.Mode == spec.NetworkAllowlist || n.Mode == spec.NetworkProxy
	switch {
	case !used && len(n.AllowedHosts)+len(n.DeniedHosts)+len(n.AllowedPorts)+len(n.AllowedSchemes)+len(n.Nameservers)+len(n.Reachable) > 0,
		!used && (n.Transparent || n.JavaToolOptions), used == (n.Dial == ""), used == (n.ECH == ""),
		(n.Mode == spec.NetworkProxy) != (n.ProxyURL != ""),
		n.Mode == spec.NetworkUnrestricted && n.DenyPrivateNetworks:
		t.Fatalf("got a network that contradicts itself: %+v", n)
	case n.AllowedHosts == nil, n.DeniedHosts == nil, n.Nameservers == nil, n.Reachable == nil, n.AllowedPorts == nil, n.AllowedSchemes == nil, p.Process.Capabilities == nil, p.Files.ReadPaths == nil,
		p.Files.WritePaths == nil, p.Files.ProtectedPaths == nil, p.Files.Devices == nil, p.Files.SharedNamespaces == nil, p.Files.Hooks == nil,
		p.Files.InitBinaries == nil:
		t.Fatalf("got a nil list, which has another digest than an empty one: %+v", p)
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
