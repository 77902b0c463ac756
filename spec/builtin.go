package spec

import (
	"fmt"
	"maps"
	"slices"
)

// CompatProfile is the profile without policy: a host may name it, a bundle
// never.
const CompatProfile = "compat"

// DefaultProfile is the one that holds where the host names none.
const DefaultProfile = "sage"

// BuiltinHost is the configuration of a host that has no file.
func BuiltinHost() *Host {
	h := &Host{DefaultProfile: DefaultProfile, AllowedAnnotations: []string{"*"}, Profiles: map[string]*Profile{}, Egress: defaultEgress()}
	for _, p := range builtinProfiles() {
		h.Profiles[p.Name] = p
	}
	h.AllowedProfiles = selectable(h.Profiles)
	return h
}

// selectable are the profiles that a bundle may choose unless the host says
// otherwise.
func selectable(profiles map[string]*Profile) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(profiles)), func(name string) bool { return name == CompatProfile })
}

// given are values as a person writes them, by key.
type given map[string]any

// with returns a copy in which those of other win.
func (g given) with(other given) given {
	out := maps.Clone(g)
	maps.Copy(out, other)
	return out
}

// sageDefaults are the first seed's own numbers (S-003, S-023, S-060, S-074).
// Where a profile has no limits, its defaults are the ceiling.
func sageDefaults() given {
	return given{
		"resources.cpu_percent": 100, "resources.memory_mb": 1024, "resources.disk_mb": 4096,
		"resources.max_processes": 64, "resources.require_hard_limits": true,
		"network.mode": "none", "network.allowed_hosts": []string{}, "network.allowed_ports": []string{"80", "443"},
		"network.allowed_schemes": []string{"https"}, "network.deny_private_networks": true,
		"network.max_wall_time_seconds": 30, "network.max_request_body_bytes": 1 << 20, "network.max_response_bytes": 10 << 20,
		"network.max_connections": 64, "network.max_active": 32, "network.max_total_bytes": 0,
		"network.denied_hosts": []string{}, "network.transparent": true, "network.dial": "auto", "network.ech": "refuse",
		"network.listen": "deny", "network.unix_sockets": false,
		"process.capabilities": []string{}, "process.allow_ptrace": false, "process.allow_no_randomize": false,
		"process.require_non_root": false, "process.max_open_files": 1024,
		"process.max_output_bytes": 0,
		"files.readonly_root":      true, "files.readonly_proc": true, "files.protected_paths": []string{},
		"files.require_apparmor": false, "timeout_seconds": 0,
	}
}

// agentDefaults let build tools and package managers work: they listen on
// loopback, talk over AF_UNIX, write below / and fetch more than a seed's page
// (G-11, G-19).
func agentDefaults() given {
	return sageDefaults().with(given{
		"network.listen": "loopback", "network.unix_sockets": true, "network.allowed_schemes": []string{"http", "https"},
		"network.max_wall_time_seconds": 600, "network.max_request_body_bytes": 64 << 20, "network.max_response_bytes": 1 << 30,
		"network.max_connections": 256, "network.max_active": 128,
		"process.allow_ptrace": true, "process.allow_no_randomize": true,
		"files.readonly_root": false, "files.readonly_proc": false,
	})
}

func agentLimits() given {
	return given{
		"resources.cpu_percent": 400, "resources.memory_mb": 8192, "resources.disk_mb": 16384, "resources.max_processes": 1024,
		"network.modes": []string{"none", "allowlist"},
	}
}

// serviceDefaults are for daemons of images: they start as root, give the data
// directory to their own user and become it.
func serviceDefaults() given {
	return agentDefaults().with(given{
		"network.listen": "any", "process.allow_ptrace": false,
		"process.capabilities": []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID"},
	})
}

// superagentDefaults and electricDefaults are the other seeds' (C-04).
func superagentDefaults() given {
	return sageDefaults().with(given{
		"resources.cpu_percent": 50, "resources.memory_mb": 256, "timeout_seconds": 30,
	})
}

func electricDefaults() given {
	return agentDefaults().with(given{
		"resources.cpu_percent": 200, "resources.memory_mb": 2048, "resources.max_processes": 1024,
	})
}

func builtinProfiles() []*Profile {
	return []*Profile{
		builtin(DefaultProfile, "The strictest, and the default", sageDefaults(), given{}),
		builtin("agent", "Coding agents and build jobs", agentDefaults(), agentLimits()),
		builtin("service", "Daemons that others connect to", serviceDefaults(), agentLimits()),
		builtin("superagent", "One tool call with a time limit", superagentDefaults(), given{}),
		builtin("electric", "Long-lived agent sandboxes", electricDefaults(), agentLimits()),
		{Name: CompatProfile, Label: "No policy: runc's behaviour", Compat: true},
	}
}

func builtin(name, label string, defaults, limits given) *Profile {
	return &Profile{Name: name, Label: label, defaults: defaults.values(name), limits: limits.values(name)}
}

// values checks what is built in as the file's reader would: a mistake in the
// tables above is one of the program.
func (g given) values(profile string) map[string]value {
	out := make(map[string]value, len(g))
	for key, raw := range g {
		v, err := givenValue(key, raw)
		if err != nil {
			panic(fmt.Sprintf("spec: built-in profile %s: %s: %v", profile, key, err))
		}
		v.from = profile
		out[key] = v
	}
	return out
}

func givenValue(key string, raw any) (value, error) {
	s, known := settingByKey(key)
	if !known {
		s, known = settingByLimit(key)
	}
	if !known {
		return value{}, fmt.Errorf("no such key")
	}
	switch raw := raw.(type) {
	case int:
		return s.number(int64(raw))
	case bool:
		return value{b: raw}, nil
	case string:
		return s.word(raw)
	case []string:
		return s.entries(raw)
	}
	return value{}, fmt.Errorf("saw %T, want %s", raw, s.form)
}
