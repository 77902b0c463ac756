package spec_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// TestReasons: every value has one, in the configuration's order, and the
// variables that a host forces are named without what is in them.
func TestReasons(t *testing.T) {
	h := parse(t, strings.Replace(full, "LANG: C.UTF-8", "TOKEN: hunter2", 1))
	s := bundle(map[string]string{"network.mode": "none"})
	r, err := spec.Resolve(h, s)
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, reason := range r.Reasons {
		fields = append(fields, reason.Field)
		if reason.Value == "" || reason.Source == "" {
			t.Errorf("%s: got value %q from source %q, want both", reason.Field, reason.Value, reason.Source)
		}
		if strings.Contains(reason.Value, "hunter2") {
			t.Errorf("%s: the value of a variable is told", reason.Field)
		}
	}
	want := slices.Concat([]string{"profile"}, spec.SettingKeys(), []string{
		"linux_execution_uid", "linux_execution_gid", "command_path", "read_paths", "write_paths", "devices",
		"shared_namespaces", "hooks", "init_binaries", "egress.nameservers", "egress.reachable", "egress.java_tool_options",
	})
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	for field, want := range map[string]spec.Reason{
		"profile":                 {Value: "ci", Source: "default_profile", Ceiling: "agent, ci, sage"},
		"resources.cpu_percent":   {Value: "200 %", Source: "profile ci: default", Ceiling: "400 %"},
		"network.mode":            {Value: "none", Source: "annotation", Ceiling: "none, allowlist"},
		"network.allowed_hosts":   {Value: "none", Source: "network.mode: none"},
		"network.listen":          {Value: "deny", Source: "profile ci: default", Ceiling: "loopback"},
		"process.force_env":       {Value: "A, TOKEN", Source: "profile ci: default"},
		"process.max_file_mb":     {Value: "100 MiB", Source: "profile ci: default", Ceiling: "100 MiB"},
		"files.protected_paths":   {Value: "/work/.git", Source: "profile ci: default"},
		"files.refuse_privileged": {Value: "true", Source: "profile ci: default", Ceiling: "true"},
		"linux_execution_uid":     {Value: "1001", Source: "host"},
		"devices":                 {Value: "/dev/nvidia0 c 195:0", Source: "host"},
	} {
		want.Field = field
		if diff := cmp.Diff(want, reasons(r)[field]); diff != "" {
			t.Errorf("reason (-want +got):\n%s", diff)
		}
	}
}

// TestExtends: what a profile does not say comes from the one that it extends.
func TestExtends(t *testing.T) {
	h := parse(t, `version: 1
allowed_profiles: [a, b, c, sage, agent]
profiles:
  c: {extends: b, defaults: {process: {max_open_files: 300}}}
  b: {extends: a, label: the middle, defaults: {process: {capabilities: [KILL]}}, limits: {resources: {memory_mb: 3000}}}
  a: {extends: service, defaults: {resources: {memory_mb: 2000}}, limits: {resources: {memory_mb: 4000}}}
  sage: {defaults: {resources: {memory_mb: 4000}}}
  plain: {defaults: {resources: {require_hard_limits: false}}}
`)
	c := resolved(t, h, map[string]string{"profile": "c"})
	if c.Process.MaxOpenFiles != 300 || c.Resources.MemoryBytes != 2000<<20 || !slices.Equal(c.Process.Capabilities, []string{"CAP_KILL"}) || c.Network.Listen != spec.ListenAny {
		t.Errorf("c: got %+v", c)
	}
	if got := h.Profiles["c"].Label; got != "the middle" {
		t.Errorf("label of c: got %q", got)
	}
	_, err := spec.Resolve(h, bundle(map[string]string{"profile": "c", "resources.memory_mb": "3001"}))
	checkCode(t, err, errcode.LimitExceeded, "want at most 3000 MiB")
	// A default raised without a limit raises the ceiling, since that was it.
	if got := resolved(t, h, map[string]string{"resources.memory_mb": "4000"}); got.Resources.MemoryBytes != 4000<<20 {
		t.Errorf("sage: got %d bytes", got.Resources.MemoryBytes)
	}
	// A profile of the host's own that extends none is the strictest one, as the
	// file has it.
	plain, err := h.With("plain")
	if err != nil {
		t.Fatal(err)
	}
	if got := resolved(t, plain, nil); got.Resources.MemoryBytes != 4000<<20 || !got.Files.ReadonlyRoot || got.Resources.RequireHardLimits {
		t.Errorf("plain: got %+v", got)
	}
	// Built-in profiles do not change with each other.
	if got := resolved(t, h, map[string]string{"profile": "agent"}); got.Resources.MemoryBytes != 1024<<20 {
		t.Errorf("agent: got %d bytes", got.Resources.MemoryBytes)
	}
	_, err = h.With("none")
	checkCode(t, err, errcode.ProfileUnavailable, `saw "none", want one of a, agent`)
}

// TestResolvePure: nothing of the host can be reached through a policy, and a
// bundle stays as it was.
func TestResolvePure(t *testing.T) {
	h := parse(t, full)
	first, err := spec.Resolve(h, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := first.Policy
	for _, list := range [][]string{
		p.Network.AllowedHosts, p.Network.AllowedSchemes, p.Process.Capabilities, p.Process.AllowedEnv, p.Process.ForceEnv,
		p.Files.ReadPaths, p.Files.WritePaths, p.Files.ProtectedPaths, p.Files.SharedNamespaces, p.Files.Hooks, p.Files.InitBinaries,
	} {
		list[0] = "changed"
	}
	p.Network.AllowedPorts[0], p.Files.Devices[0].Major = 1, 1
	*p.Process.ExecutionUID, *p.Process.ExecutionGID = 0, 0
	again, err := spec.Resolve(h, nil)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := spec.Resolve(parse(t, full), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fresh, again); diff != "" {
		t.Errorf("the host changed through a policy (-want +got):\n%s", diff)
	}
	if keys := slices.Sorted(maps.Keys(h.Profiles)); len(keys) == 0 {
		t.Error("no profiles left")
	}
}
