package spec_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

const full = `version: 1
default_profile: ci
allowed_profiles: [sage, ci, agent]
allowed_annotations: [profile, network.mode]
linux_quota_mount: /srv/sage-xfs
linux_cgroup_root: /sys/fs/cgroup/sage
linux_execution_uid: 1001
linux_execution_gid: 1002
quota: {project_ids: 100000-199999}
audit_dir: /var/log/sage
read_paths: [/usr/share/dict, /opt/data, /usr/share/dict]
command_path: /usr/bin:/bin
write_paths: [/srv/work]
devices: [{path: /dev/nvidia0, type: c, major: 195, minor: 0}]
shared_namespaces: [network, ipc, uts]
hooks: [/usr/bin/some-hook]
init_binaries: [/usr/bin/docker-init]
egress: {uid: 2001, gid: 2002, nameservers: [192.0.2.53, "192.0.2.54:5353", "2001:db8::53", "[2001:db8::53]:53"], reachable: [10.1.0.0/16, 192.0.2.7], java_tool_options: false}
profiles:
  ci:
    extends: agent
    label: CI jobs
    description: what the build machines run
    defaults:
      resources: {cpu_percent: 200, memory_mb: 2048, disk_mb: 8192, max_processes: 128, require_hard_limits: false}
      network:
        mode: allowlist
        allowed_hosts: [pypi.org, "*.PythonHosted.org.", "tcp://db.example:5432"]
        denied_hosts: ["BAD.pythonhosted.org", "192.0.2.9"]
        transparent: false
        dial: engine
        ech: outer
        max_connections: 10
        max_active: 5
        max_total_bytes: 3000
        allowed_ports: [443]
        allowed_schemes: [https]
        deny_private_networks: true
        max_wall_time_seconds: 60
        max_request_body_bytes: 1000
        max_response_bytes: 2000
        listen: deny
        unix_sockets: false
      process:
        capabilities: [CHOWN, CAP_KILL]
        allow_ptrace: false
        allow_no_randomize: false
        require_non_root: true
        max_open_files: 4096
        max_file_mb: 100
        max_output_bytes: 5000
        allowed_env_names: [LANG, PATH]
        force_env: {LANG: C.UTF-8, A: ""}
      files:
        readonly_root: true
        readonly_proc: true
        protected_paths: [/work/.git]
        refuse_privileged: true
        require_apparmor: true
      timeout_seconds: 60
    limits:
      resources: {cpu_percent: 400, memory_mb: 4096, disk_mb: 8192, max_processes: 256}
      network:
        modes: [none, allowlist]
        allowed_hosts: [pypi.org, "*.pythonhosted.org", "tcp://db.example:5432"]
        dials: [engine, auto]
        ech: outer
        max_connections: 20
        max_active: 20
        max_total_bytes: 30000
        allowed_ports: [80, 443]
        allowed_schemes: [http, https]
        listen: loopback
        deny_private_networks: true
        max_wall_time_seconds: 600
        max_request_body_bytes: 1000
        max_response_bytes: 20000
        host_network: false
      process: {max_output_bytes: 100000}
      timeout_seconds: 3600
`

func parse(t *testing.T, text string) *spec.Host {
	t.Helper()
	h, err := spec.ParseHost([]byte(text))
	if err != nil {
		t.Fatalf("ParseHost: %v\n%s", err, text)
	}
	return h
}

func TestParseHost(t *testing.T) {
	h := parse(t, full)
	uid, gid := uint32(1001), uint32(1002)
	want := &spec.Host{
		DefaultProfile: "ci", AllowedProfiles: []string{"agent", "ci", "sage"},
		AllowedAnnotations: []string{"network.mode", "profile"},
		QuotaMount:         "/srv/sage-xfs", CgroupRoot: "/sys/fs/cgroup/sage",
		ExecutionUID: &uid, ExecutionGID: &gid, ProjectIDs: spec.IDRange{First: 100000, Last: 199999},
		AuditDir: "/var/log/sage", ReadPaths: []string{"/opt/data", "/usr/share/dict"}, CommandPath: "/usr/bin:/bin",
		WritePaths:       []string{"/srv/work"},
		Devices:          []spec.Device{{Path: "/dev/nvidia0", Type: "c", Major: 195}},
		SharedNamespaces: []string{"ipc", "network", "uts"},
		Hooks:            []string{"/usr/bin/some-hook"}, InitBinaries: []string{"/usr/bin/docker-init"},
		Egress: spec.Egress{
			UID: 2001, GID: 2002, Reachable: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("192.0.2.7/32")},
			Nameservers: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53"), netip.MustParseAddrPort("192.0.2.54:5353"), netip.MustParseAddrPort("[2001:db8::53]:53")},
		},
	}
	names := h.ProfileNames()
	got := *h
	got.Profiles = nil
	if diff := cmp.Diff(want, &got, cmpopts.EquateComparable(netip.AddrPort{}, netip.Prefix{})); diff != "" {
		t.Errorf("host (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"agent", "ci", "compat", "electric", "sage", "service", "superagent"}, names); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
	if p := h.Profiles["ci"]; p.Label != "CI jobs" || p.Description != "what the build machines run" {
		t.Errorf("profile ci: got label %q, description %q", p.Label, p.Description)
	}
}

// TestParseHostPolicy follows every default of the file into the policy.
func TestParseHostPolicy(t *testing.T) {
	uid, gid := uint32(1001), uint32(1002)
	want := spec.Policy{
		Profile: "ci",
		Resources: spec.Resources{
			CPUQuota: 200_000, MemoryBytes: 2048 << 20, DiskBytes: 8192 << 20, MaxProcesses: 128,
		},
		Network: spec.Network{
			Mode: spec.NetworkAllowlist, AllowedHosts: []string{"*.pythonhosted.org", "pypi.org", "tcp://db.example:5432"}, AllowedPorts: []uint16{443},
			DeniedHosts: []string{"192.0.2.9", "bad.pythonhosted.org"}, Dial: spec.DialEngine, ECH: "outer",
			MaxConnections: 10, MaxActive: 5, MaxTotalBytes: 3000, Reachable: []string{"10.1.0.0/16", "192.0.2.7/32"},
			Nameservers:    []string{"192.0.2.53:53", "192.0.2.54:5353", "[2001:db8::53]:53"},
			AllowedSchemes: []string{"https"}, DenyPrivateNetworks: true, MaxWallTimeSeconds: 60,
			MaxRequestBodyBytes: 1000, MaxResponseBytes: 2000, Listen: spec.ListenDeny,
		},
		Process: spec.Process{
			Capabilities: []string{"CAP_CHOWN", "CAP_KILL"}, RequireNonRoot: true, ExecutionUID: &uid, ExecutionGID: &gid,
			MaxOpenFiles: 4096, MaxFileBytes: 100 << 20, MaxOutputBytes: 5000, CommandPath: "/usr/bin:/bin",
			AllowedEnv: []string{"LANG", "PATH"}, ForceEnv: []string{"A=", "LANG=C.UTF-8"},
		},
		Files: spec.Files{
			ReadonlyRoot: true, ReadonlyProc: true, ReadPaths: []string{"/opt/data", "/usr/share/dict"},
			WritePaths: []string{"/srv/work"}, ProtectedPaths: []string{"/work/.git"},
			Devices:          []spec.Device{{Path: "/dev/nvidia0", Type: "c", Major: 195}},
			SharedNamespaces: []string{"ipc", "network", "uts"}, RefusePrivileged: true,
			Hooks: []string{"/usr/bin/some-hook"}, InitBinaries: []string{"/usr/bin/docker-init"}, RequireAppArmor: true,
		},
		TimeoutSeconds: 60,
	}
	r, err := spec.Resolve(parse(t, full), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, r.Policy); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
}

// TestParseHostJSON: YAML holds JSON, as people's tools write it.
func TestParseHostJSON(t *testing.T) {
	h := parse(t, "{\n\t\"version\": 1,\n\t\"default_profile\": \"agent\",\n\t\"profiles\": {\n\t\t\"agent\": {\"label\": \"caf\\u00e9\"}\n\t}\n}\n")
	if h.DefaultProfile != "agent" || h.Profiles["agent"].Label != "café" {
		t.Errorf("got default profile %q, label %q", h.DefaultProfile, h.Profiles["agent"].Label)
	}
}

// Proves: E-005.
func TestParseHostMinimal(t *testing.T) {
	if diff := cmp.Diff(resolved(t, spec.BuiltinHost(), nil), resolved(t, parse(t, "version: 1\n"), nil)); diff != "" {
		t.Errorf("no file and one that says nothing (-none +empty):\n%s", diff)
	}
}

// profile is a file with one profile of that content, its first line the third.
func profile(content string) string { return "version: 1\nprofiles:\n  ci: " + content + "\n" }

// Proves: E-002, G-26.
func TestParseHostRefuses(t *testing.T) {
	tests := map[string]struct {
		in   string
		want string // part of the error, with the line and the key
	}{
		// The document.
		"empty":           {"", "the file is empty"},
		"comment only":    {"# nothing\n", "the file is empty"},
		"no version":      {"default_profile: sage\n", "version: saw none"},
		"version 2":       {"version: 2\n", "line 1: version: saw 2, want 1"},
		"version in text": {"version: \"1\"\n", "line 1: version: saw a string, want a whole number"},
		"a list":          {"- version: 1\n", "saw a list, want a mapping"},
		"a word":          {"version\n", "saw a string, want a mapping"},
		"second document": {"version: 1\n---\nversion: 1\n", "line 2: saw a second document"},
		"cut off":         {"version: 1\nprofiles: {\n", "not valid YAML: line 2"},
		"not UTF-8":       {"version: 1\nlabel: \xff\n", "not a text in UTF-8"},
		"UTF-16":          {"\xff\xfev\x00", "not a text in UTF-8"},
		"a NUL":           {"version: 1\x00\n", "not a text in UTF-8"},
		"anchor":          {"version: &a 1\n", "line 1: saw an anchor"},
		"alias":           {"version: 1\nread_paths: &a [/x]\nwrite_paths: *a\n", "line 2: saw an anchor"},
		"merge key":       {"version: 1\nprofiles:\n  ci: {<<: {label: x}}\n", "line 3: saw a merge"},
		"tag":             {"version: !!int 1\n", "line 1: saw a tag"},
		"too large":       {"version: 1\n#" + strings.Repeat("x", spec.MaxHostBytes), "the file is larger than 1048576 bytes"},
		"key is a number": {"version: 1\n2: 3\n", "line 2: : saw the number 2 for a key"},
		// Keys.
		"unknown key":           {"version: 1\nreadpaths: [/x]\n", "line 2: readpaths: no such key here, want one of allowed_annotations"},
		"key in other case":     {"version: 1\nRead_paths: [/x]\n", "line 2: Read_paths: no such key"},
		"key twice":             {"version: 1\nhooks: []\nhooks: []\n", "line 3: hooks: given twice, first in line 2"},
		"profile twice":         {"version: 1\nprofiles:\n  ci: {}\n  ci: {}\n", "line 4: profiles.ci: given twice, first in line 3"},
		"profile in two cases":  {"version: 1\nprofiles:\n  ci: {}\n  CI: {}\n", "line 4: profiles.CI: differs from the profile ci in case only"},
		"built-in in caps":      {"version: 1\nprofiles: {Sage: {}}\n", "line 2: profiles.Sage: differs from the profile sage in case only"},
		"odd profile name":      {"version: 1\nprofiles: {\"../x\": {}}\n", "line 2: profiles.\"../x\": want a name"},
		"profile without name":  {"version: 1\nprofiles: {\"\": {}}\n", "line 2: profiles.: want a name"},
		"key with a new line":   {"version: 1\n\"a\\nb\": 1\n", `line 2: "a\nb": no such key`},
		"unknown default":       {profile("{defaults: {resources: {memory: 1}}}"), "line 3: profiles.ci.defaults.resources.memory: no such key here, want one of cpu_percent"},
		"unknown group":         {profile("{defaults: {resource: {}}}"), "line 3: profiles.ci.defaults.resource: no such key here, want one of files, network, process, resources, timeout_seconds"},
		"a default as a limit":  {profile("{limits: {network: {mode: none}}}"), "line 3: profiles.ci.limits.network.mode: no such key"},
		"a limit as a default":  {profile("{defaults: {network: {host_network: true}}}"), "line 3: profiles.ci.defaults.network.host_network: no such key"},
		"seed's allow_listen":   {profile("{defaults: {network: {allow_listen: true}}}"), "network.allow_listen: no such key"},
		"seed's methods":        {profile("{defaults: {network: {allowed_methods: [GET]}}}"), "network.allowed_methods: no such key"},
		"profile is nothing":    {profile(""), "line 3: profiles.ci: saw nothing, want a mapping"},
		"defaults is a list":    {profile("{defaults: []}"), "line 3: profiles.ci.defaults: saw a list, want a mapping"},
		"label is a date":       {profile("{label: 2020-01-01}"), "line 3: profiles.ci.label: saw a date, want a string"},
		"label is a list":       {profile("{label: [a]}"), "line 3: profiles.ci.label: saw a list, want a string"},
		"unknown key in quota":  {"version: 1\nquota: {ids: 1-2}\n", "line 2: quota.ids: no such key"},
		"unknown key in device": {"version: 1\ndevices: [{name: x}]\n", "line 2: devices[0].name: no such key"},
		// Profiles.
		"unknown parent":          {profile("{extends: none}"), `line 3: profiles.ci.extends: saw "none", want one of agent`},
		"compat as parent":        {profile("{extends: compat}"), "line 3: profiles.ci.extends: saw compat"},
		"own parent":              {profile("{extends: ci}"), "line 3: profiles.ci.extends: saw ci, which comes from ci itself"},
		"cycle of two":            {"version: 1\nprofiles:\n  a: {extends: b}\n  b: {extends: a}\n", "line 4: profiles.b.extends: saw a, which comes from b itself"},
		"cycle over a built-in":   {"version: 1\nprofiles:\n  sage: {extends: x}\n  x: {}\n", "profiles.x.extends: saw sage"},
		"compat with settings":    {"version: 1\nprofiles:\n  compat: {}\n", "line 3: profiles.compat: compat has no policy"},
		"unknown default profile": {"version: 1\ndefault_profile: x\n", `line 2: default_profile: saw "x", want one of agent`},
		"default profile in caps": {"version: 1\ndefault_profile: SAGE\n", `line 2: default_profile: saw "SAGE"`},
		"unknown allowed profile": {"version: 1\nallowed_profiles: [sage, x]\n", `line 2: allowed_profiles: saw "x"`},
		"compat allowed":          {"version: 1\nallowed_profiles: [compat]\n", "line 2: allowed_profiles: saw compat, which a bundle may never choose"},
		"unknown annotation":      {"version: 1\nallowed_annotations: [network.moed]\n", "line 2: allowed_annotations[0]: saw no key of an annotation"},
		"annotation with prefix":  {"version: 1\nallowed_annotations: [sage.sandbox.profile]\n", "allowed_annotations[0]"},
		// Identities and devices.
		"root as execution uid": {"version: 1\nlinux_execution_uid: 0\nlinux_execution_gid: 1\n", "line 2: linux_execution_uid: saw 0, want 1 to"},
		"root as execution gid": {"version: 1\nlinux_execution_uid: 1\nlinux_execution_gid: 0\n", "line 3: linux_execution_gid: saw 0, want 1 to"},
		"uid without gid":       {"version: 1\nlinux_execution_uid: 1\n", "line 2: linux_execution_uid: saw half of an identity"},
		"gid without uid":       {"version: 1\nlinux_execution_gid: 1\n", "line 2: linux_execution_uid: saw half of an identity"},
		"uid of no change":      {"version: 1\nlinux_execution_uid: 4294967295\nlinux_execution_gid: 1\n", "saw 4294967295"},
		"project ids":           {"version: 1\nquota: {project_ids: 5-1}\n", "line 2: quota.project_ids: want FIRST-LAST"},
		"project id 0":          {"version: 1\nquota: {project_ids: 0-9}\n", "quota.project_ids"},
		"project ids kubelet's": {"version: 1\nquota: {project_ids: 1-1048577}\n", "quota.project_ids"},
		"one project id":        {"version: 1\nquota: {project_ids: \"7\"}\n", "quota.project_ids"},
		"device without major":  {"version: 1\ndevices: [{path: /dev/x, type: c, minor: 1}]\n", "line 2: devices[0]: major, minor: want both"},
		"device elsewhere":      {"version: 1\ndevices: [{path: /x, type: c, major: 9, minor: 1}]\n", "path: want one below /dev"},
		"device of type p":      {"version: 1\ndevices: [{path: /dev/x, type: p, major: 9, minor: 1}]\n", "type: want c or b"},
		"tun":                   {"version: 1\ndevices: [{path: /dev/x, type: c, major: 10, minor: 200}]\n", "saw c 10:200, which no container may have"},
		"fuse":                  {"version: 1\ndevices: [{path: /dev/fuse, type: c, major: 10, minor: 229}]\n", "which no container may have"},
		"kvm":                   {"version: 1\ndevices: [{path: /dev/kvm, type: c, major: 10, minor: 232}]\n", "which no container may have"},
		"mem":                   {"version: 1\ndevices: [{path: /dev/mem, type: c, major: 1, minor: 1}]\n", "which no container may have"},
		"kmsg":                  {"version: 1\ndevices: [{path: /dev/kmsg, type: c, major: 1, minor: 11}]\n", "which no container may have"},
		"vhost":                 {"version: 1\ndevices: [{path: /dev/vhost-vdpa-0, type: c, major: 240, minor: 1}]\n", "which no container may have"},
		"loop":                  {"version: 1\ndevices: [{path: /dev/x, type: b, major: 7, minor: 3}]\n", "which no container may have"},
		"mapper":                {"version: 1\ndevices: [{path: /dev/mapper/vg-x, type: b, major: 253, minor: 3}]\n", "which no container may have"},
		"namespace":             {"version: 1\nshared_namespaces: [network, user]\n", "line 2: shared_namespaces[1]: saw an unknown word, want one of ipc, network, pid, uts"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { checkHostRefused(t, tt.in, tt.want) })
	}
}

func checkHostRefused(t *testing.T, in, want string) {
	t.Helper()
	h, err := spec.ParseHost([]byte(in))
	if err == nil {
		t.Fatalf("got no error, want %q", want)
	}
	if h != nil {
		t.Error("got a host beside the error")
	}
	if got := err.Error(); !strings.Contains(got, want) || strings.Contains(got, "\n") || strings.Contains(got, "hunter2") {
		t.Errorf("got %q, want one line with %q", got, want)
	}
	if got := errcode.Of(err); got != errcode.ConfigInvalid {
		t.Errorf("got code %q, want %q", got, errcode.ConfigInvalid)
	}
}

// TestParseHostNumbers: each number is held to its range, and a thing that is
// no whole number is not taken for one.
//
// Proves: S-009, K-01.
func TestParseHostNumbers(t *testing.T) {
	keys := []string{
		"defaults.resources.cpu_percent", "defaults.resources.memory_mb", "defaults.resources.disk_mb", "defaults.resources.max_processes",
		"defaults.network.max_wall_time_seconds", "defaults.network.max_request_body_bytes", "defaults.network.max_response_bytes",
		"defaults.network.max_connections", "limits.network.max_active",
		"defaults.process.max_open_files", "defaults.process.max_file_mb",
		"limits.resources.cpu_percent", "limits.resources.memory_mb", "limits.resources.disk_mb", "limits.resources.max_processes",
		"limits.network.max_wall_time_seconds", "limits.network.max_request_body_bytes", "limits.network.max_response_bytes",
	}
	bad := map[string]string{
		"0": "saw 0, want", "-1": "saw the number -1", ".inf": "saw the number .inf", ".nan": "saw the number .nan",
		"-.inf": "saw the number", "true": "saw the flag true", `"64"`: "saw a string", "64.0": "saw the number 64.0",
		"1e3": "saw", "0x40": "saw the number 0x40", "0o100": "saw", "0100": "saw", "1_000": "saw", "+64": "saw", "~": "saw nothing",
		"[64]": "saw a list", "{}": "saw a mapping", "9223372036854775807": "saw 9223372036854775807, want",
		"99999999999999999999": "saw", "1:30": "saw",
	}
	for _, key := range keys {
		for text, want := range bad {
			t.Run(key+"="+text, func(t *testing.T) {
				checkHostRefused(t, nested(key, text), "line 3: profiles.ci."+key+": "+want)
			})
		}
	}
	checkHostRefused(t, nested("defaults.resources.max_processes", "3"), "saw 3, want 4 to")
	checkHostRefused(t, nested("defaults.timeout_seconds", "-1"), "saw the number -1")
	checkHostRefused(t, nested("defaults.process.max_output_bytes", "-1"), "saw the number -1")
}

// nested writes one value of the profile ci, in the third line of a file.
func nested(key, text string) string {
	parts := strings.Split(key, ".")
	return profile("{" + strings.Join(parts, ": {") + ": " + text + strings.Repeat("}", len(parts)))
}

// TestParseHostValues holds the other values to their form.
//
// Proves: S-038, S-069.
func TestParseHostValues(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"flag as a word", nested("defaults.files.readonly_root", "yes"), "saw a string, want true or false"},
		{"flag in caps", nested("defaults.files.readonly_root", "True"), "saw the flag True, want true or false"},
		{"flag as a number", nested("defaults.files.readonly_root", "1"), "saw the number 1, want true or false"},
		{"flag quoted", nested("defaults.files.readonly_root", `"true"`), "saw a string, want true or false"},
		{"mode", nested("defaults.network.mode", "host"), "want one of none, allowlist, proxy, unrestricted"},
		{"mode in caps", nested("defaults.network.mode", "None"), "want one of none"},
		{"modes as a word", nested("limits.network.modes", "none"), "saw a string, want a list"},
		{"modes with another", nested("limits.network.modes", "[none, all]"), "entry 2: saw an unknown word"},
		{"listen", nested("defaults.network.listen", "lo"), "want one of deny, loopback, any"},
		{"scheme", nested("defaults.network.allowed_schemes", "[ftp]"), "want one of http, https"},
		{"port 0", nested("defaults.network.allowed_ports", "[0]"), "entry 1: saw no port"},
		{"port 65536", nested("defaults.network.allowed_ports", "[443, 65536]"), "entry 2: saw no port"},
		{"port in text", nested("defaults.network.allowed_ports", `["443"]`), "allowed_ports[0]: saw a string, want a number"},
		{"port as a range", nested("defaults.network.allowed_ports", "[1-2]"), "allowed_ports[0]: saw a string, want a number"},
		{"hosts as a word", nested("defaults.network.allowed_hosts", "pypi.org"), "saw a string, want a list"},
		{"host with no port", nested("defaults.network.allowed_hosts", `["pypi.org:"]`), "entry 1: saw no port"},
		{"host with a path", nested("defaults.network.allowed_hosts", `["https://pypi.org/simple"]`), "entry 1: saw a byte"},
		{"host of another scheme", nested("defaults.network.allowed_hosts", `["ssh://pypi.org"]`), "entry 1: saw a scheme"},
		{"every host by tcp", nested("limits.network.allowed_hosts", `["tcp://*:22"]`), `entry 1: saw a rule for tcp`},
		{"denied address with a port", nested("defaults.network.denied_hosts", `["192.0.2.1:80"]`), "entry 1: saw an address with a scheme or a port"},
		{"denied host", nested("defaults.network.denied_hosts", `["a b"]`), "entry 1: saw a byte"},
		{"dial", nested("defaults.network.dial", `here`), "want one of engine, auto, host"},
		{"dials", nested("limits.network.dials", `[here]`), "want one of engine, auto, host"},
		{"ech", nested("defaults.network.ech", `allow`), "want one of refuse, outer"},
		{"no connections", nested("defaults.network.max_connections", `0`), "saw 0, want 1 to"},
		{"egress uid", "version: 1\negress: {uid: 0}", "saw 0, want 1 to 4294967294: the proxy never runs as root"},
		{"egress key", "version: 1\negress: {port: 1}", "egress.port: no such key here"},
		{"nameserver by name", "version: 1\negress: {nameservers: [dns.example]}", "egress.nameservers[0]: saw no address of a nameserver"},
		{"nameserver in another form", "version: 1\negress: {nameservers: [\"127.1\"]}", "ends in a number"},
		{"nameserver port", "version: 1\negress: {nameservers: [\"192.0.2.1:0\"]}", "saw no port"},
		{"reachable name", "version: 1\negress: {reachable: [db.example]}", "egress.reachable[0]: saw no network"},
		{"reachable unmasked", "version: 1\negress: {reachable: [10.1.2.3/8]}", "want 10.0.0.0/8"},
		{"reachable mapped", "version: 1\negress: {reachable: [\"::ffff:10.0.0.0/104\"]}", "saw no network"},
		{"hosts below a suffix", nested("defaults.network.allowed_hosts", `["*.co.uk"]`), "entry 1: saw a wildcard on a public suffix"},
		{"capability", nested("defaults.process.capabilities", "[CAP_CHOWNED]"), "entry 1: saw no capability"},
		{"capability in small letters", nested("defaults.process.capabilities", "[chown]"), "entry 1: saw no capability"},
		{"all capabilities", nested("defaults.process.capabilities", "[ALL]"), "entry 1: saw no capability"},
		{"forbidden capability", nested("defaults.process.capabilities", "[KILL, SYS_ADMIN]"), "entry 2: saw CAP_SYS_ADMIN, which no container may have"},
		{"env name with a sign", nested("defaults.process.allowed_env_names", "[A-B]"), "entry 1: saw no name"},
		{"env name empty", nested("defaults.process.allowed_env_names", `[""]`), "entry 1: saw no name"},
		{"env name with digit first", nested("defaults.process.allowed_env_names", "[_1, 1A]"), "entry 2: saw no name"},
		{"forced env of libcontainer", nested("defaults.process.force_env", "{_LIBCONTAINER_INITPIPE: hunter2}"), "saw a name beginning with _LIBCONTAINER_"},
		{"forced env as a list", nested("defaults.process.force_env", "[A=hunter2]"), "saw a list, want a mapping"},
		{"forced env as a number", nested("defaults.process.force_env", "{A: 1}"), "force_env.A: saw the number 1, want a string"},
		{"forced env with a NUL", nested("defaults.process.force_env", `{A: "hunter2\0"}`), "force_env.A: saw a NUL"},
		{"forced PATH twice", "version: 1\ncommand_path: /bin\nprofiles: {ci: {defaults: {process: {force_env: {PATH: /x}}}}}\n", "line 3: profiles.ci.defaults.process.force_env: saw PATH beside command_path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkHostRefused(t, tt.in, tt.want) })
	}
}

// Proves: S-030, S-035, S-118, S-119, S-111, K-12.
func TestParseHostPaths(t *testing.T) {
	top := func(key string) func(string) string {
		return func(text string) string { return "version: 1\n" + key + ": " + text + "\n" }
	}
	protected := func(text string) string { return nested("defaults.files.protected_paths", text) }
	tests := []struct {
		name   string
		file   func(string) string
		good   []string
		refuse map[string]string
	}{
		{"command_path", top("command_path"), []string{"/usr/bin:/bin", "/bin", "/opt/x y/bin:/bin"}, map[string]string{
			`""`: "directory 1: saw an empty path", `"/bin:"`: "directory 2: saw an empty path", `":/bin"`: "directory 1: saw an empty path",
			"/bin::/usr/bin": "directory 2: saw an empty path", "relative/bin": "directory 1: saw a relative path", "/bin:.": "directory 2: saw a relative path",
			`"/bin\0"`: "directory 1: saw a NUL", "/bin:/usr/../x": "directory 2: saw a path that is not in its shortest form",
			"[/bin]": "saw a list, want a string", "1": "saw the number 1, want a string",
		}},
		{"read_paths", top("read_paths"), []string{"[/usr/share/dict]", "[]", "[/usr, /opt]"}, map[string]string{
			"/usr": "saw a string, want a list", "[/]": "saw /, want a directory below it", "[usr]": "saw a relative path",
			`["/x\0"]`: "saw a NUL", "[/usr/]": "shortest form", "[/usr//x]": "shortest form", "[/usr/./x]": "shortest form",
			"[/proc/sys]": "saw a path below /proc", "[/sys]": "saw a path below /sys", "[/dev/shm]": "below /dev", "[/run/sage/x]": "below /run/sage",
			`["/a", ""]`: "line 2: read_paths[1]: saw an empty path", "[~]": "read_paths[0]: saw nothing, want a string",
		}},
		{"write_paths", top("write_paths"), []string{"[/srv/work]"}, map[string]string{"[/]": "saw /", "[/proc]": "below /proc", "[.]": "relative"}},
		{"audit_dir", top("audit_dir"), []string{"/var/log/sage"}, map[string]string{"/": "saw /", "log": "relative", "~": "saw nothing, want a string"}},
		{"linux_cgroup_root", top("linux_cgroup_root"), []string{"/sys/fs/cgroup/sage"}, map[string]string{
			"/sys/fs/cgroup": "want one below /sys/fs/cgroup", "/srv": "want one below /sys/fs/cgroup", "/sys/fs/cgroup/../x": "shortest form",
		}},
		{"linux_quota_mount", top("linux_quota_mount"), []string{"/srv/sage-xfs"}, map[string]string{"srv": "relative"}},
		{"hooks", top("hooks"), []string{"[/usr/bin/h]"}, map[string]string{"[h]": "relative", "[/proc/self/exe]": "below /proc"}},
		{"init_binaries", top("init_binaries"), []string{"[/usr/bin/docker-init]"}, map[string]string{"[init]": "relative", "/init": "want a list"}},
		{"protected_paths", protected, []string{"[/work/.git]", "[/café]", "[/work/.gitignore, /work/.git]"}, map[string]string{
			"[.git]": "entry 1: saw a relative path", "[/]": "entry 1: saw /", "[/work/../x]": "shortest form", `["/w\0"]`: "saw a NUL",
			"[/usr/x]": "saw a path below /usr", "[/tmp/x]": "saw a path below /tmp", "[/proc]": "saw a path below /proc",
			`["/cafe\u0301"]`: "Unicode's form NFC", "/work": "saw a string, want a list",
		}},
	}
	for _, tt := range tests {
		for _, text := range tt.good {
			t.Run(tt.name+" takes "+text, func(t *testing.T) { parse(t, tt.file(text)) })
		}
		for text, want := range tt.refuse {
			t.Run(tt.name+" refuses "+text, func(t *testing.T) { checkHostRefused(t, tt.file(text), want) })
		}
	}
}

// Proves: S-065, S-066, K-33.
func TestParseHostProxyURL(t *testing.T) {
	proxied := func(url string) string {
		return nested("defaults.network", `{mode: proxy, proxy_url: "`+url+`"}`)
	}
	good := map[string]string{
		"http://127.0.0.1:8080": "http://127.0.0.1:8080", "https://Proxy.Example.": "https://proxy.example:443",
		"HTTP://proxy.example/": "http://proxy.example:80", "http://[2001:DB8::1]:3128": "http://[2001:db8::1]:3128",
	}
	for url, want := range good {
		t.Run(url, func(t *testing.T) {
			h, err := parse(t, proxied(url)).With("ci")
			if err != nil {
				t.Fatal(err)
			}
			if got := resolved(t, h, nil).Network.ProxyURL; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	refuse := map[string]string{
		"": "want http or https", "proxy.example:8080": "want http or https", "socks5://proxy.example:1080": "SOCKS is not spoken",
		"http://user:hunter2@proxy.example": "saw a user or password", "http://hunter2@proxy.example": "saw a user or password",
		"http://proxy.example/path": "saw a path", "http://proxy.example?x=hunter2": "saw a path, query", "http://proxy.example?": "saw a path, query",
		"http://proxy.example#": "saw a path, query", "http://": "host: saw a name of 0 bytes", "http://:80": "host: saw a name of 0 bytes",
		"http://proxy.example:0": "port: saw no port", "http://proxy.example:70000": "port: saw no port", "http://proxy.example:": "port: saw no port",
		"http://proxy.example:http": "saw no URL", "http:proxy.example": "saw a path", "http://*.example.com": "host: saw a wildcard",
		"http://127.1:80": "host: saw a name that ends in a number", "//proxy.example": "want http or https", "http://a_b.example": "host: saw a byte",
		"http://exa mple": "saw no URL", "http://proxy.example:080": "port: saw no port",
	}
	for url, want := range refuse {
		t.Run("refuses "+url, func(t *testing.T) { checkHostRefused(t, proxied(url), want) })
	}
}

// TestParseHostContradictions: what does not fit together is the host's to
// mend, not a bundle's to find out.
//
// Proves: S-062, S-063, S-064, S-065, K-44.
func TestParseHostContradictions(t *testing.T) {
	network := func(defaults, limits string) string {
		return profile("{defaults: {network: {" + defaults + "}}, limits: {network: {" + limits + "}}}")
	}
	tests := []struct{ name, in, want string }{
		{"default above limit", profile("{defaults: {resources: {memory_mb: 2048}}, limits: {resources: {memory_mb: 1024}}}"), "line 3: profiles.ci.defaults.resources.memory_mb: the default is above the ceiling (limits.resources.memory_mb): saw 2048 MiB, want at most 1024 MiB"},
		{"inherited default above limit", profile("{limits: {resources: {cpu_percent: 50}}}"), "line 3: profiles.ci.defaults.resources.cpu_percent: the default is above the ceiling"},
		{"default above inherited limit", profile("{extends: agent, defaults: {resources: {memory_mb: 9000}}}"), "saw 9000 MiB, want at most 8192 MiB"},
		{"mode not among modes", network("mode: allowlist", "modes: [none]"), "saw allowlist, want one of none"},
		{"listen above limit", network("listen: any", "listen: loopback"), "saw any, want loopback or stricter"},
		{"port not in limit", network("allowed_ports: [22]", "allowed_ports: [443]"), "saw 22, want a part of: 443"},
		{"scheme not in limit", network("allowed_schemes: [http]", "allowed_schemes: [https]"), "saw http, want a part of: https"},
		{"host not in limit", network("mode: allowlist, allowed_hosts: [a.org]", "allowed_hosts: [\"*.a.org\"]"), "saw a.org, want a part of: *.a.org"},
		{"address under any host", network("mode: allowlist, allowed_hosts: [192.0.2.1]", "allowed_hosts: [\"*\"]"), "saw 192.0.2.1, want a part of: * (schemes https"},
		{"private networks", network("deny_private_networks: false", "deny_private_networks: true"), "saw false, want true"},
		{"output", profile("{defaults: {process: {max_output_bytes: 9}}, limits: {process: {max_output_bytes: 8}}}"), "saw 9 bytes, want at most 8 bytes"},
		{"timeout", profile("{defaults: {timeout_seconds: 60}, limits: {timeout_seconds: 30}}"), "saw 60 s, want at most 30 s"},
		{"proxy without its address", network("mode: proxy", ""), "defaults.network.proxy_url: saw none, want one"},
		{"proxy possible without its address", network("", "modes: [proxy]"), "defaults.network.proxy_url: saw none, want one"},
		{"proxy and any host, limited", network("mode: proxy, proxy_url: http://p.example", "allowed_hosts: [a.org]"), "saw no hosts, which in the mode proxy is every host"},
		{"allowlist with a proxy", network("mode: allowlist, proxy_url: http://p.example", ""), "the mode allowlist has no proxy"},
		{"unrestricted without private networks", network("mode: unrestricted", ""), "deny_private_networks: saw true beside the mode unrestricted"},
		{"unrestricted possible without them", network("", "modes: [unrestricted]"), "deny_private_networks: saw true beside the mode unrestricted"},
		{"unrestricted by default, denied by default", network("mode: unrestricted", "deny_private_networks: false"), "the default is true and the mode unrestricted"},
		{"unrestricted with hosts", network("mode: unrestricted, deny_private_networks: false, allowed_hosts: [a.org]", ""), "the mode unrestricted looks at no hosts"},
		{"unrestricted with a ceiling of hosts", network("deny_private_networks: false", "modes: [unrestricted], allowed_hosts: [a.org]"), "saw a list beside the mode unrestricted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkHostRefused(t, tt.in, tt.want) })
	}
}

// TestTrustedPaths: what decides over containers lies where none can write.
//
// Proves: S-045, K-11.
func TestTrustedPaths(t *testing.T) {
	const top = "version: 1\nwrite_paths: [/srv/work]\n"
	for _, line := range []string{
		"hooks: [/usr/bin/h, /srv/work/bin/h]", "init_binaries: [/srv/work/init]", "audit_dir: /srv/work", "audit_dir: /srv/work/audit",
	} {
		t.Run(line, func(t *testing.T) {
			checkHostRefused(t, top+line+"\n", "lies below /srv/work, where containers may write")
		})
	}
	h := parse(t, top+"hooks: [/srv/workshop/h]\naudit_dir: /srv\n")
	tests := map[string]bool{
		"/etc/sage/config.yaml": true, "/srv/workshop": true, "/srv": true,
		"/srv/work": false, "/srv/work/sage-runtime": false, "/srv/work/../work/x": false,
	}
	for path, want := range tests {
		err := h.CheckTrusted("the configuration", path)
		if got := err == nil; got != want {
			t.Errorf("CheckTrusted(%s): got %v, want trusted %v", path, err, want)
		}
		if err != nil && errcode.Of(err) != errcode.ConfigInvalid {
			t.Errorf("CheckTrusted(%s): got code %q", path, errcode.Of(err))
		}
	}
	if diff := cmp.Diff(map[string][]string{"hooks": {"/srv/workshop/h"}, "init_binaries": nil, "audit_dir": {"/srv"}}, h.Paths()); diff != "" {
		t.Errorf("Paths (-want +got):\n%s", diff)
	}
}
