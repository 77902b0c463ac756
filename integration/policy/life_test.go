//go:build kernel

package policy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// running is a container under that host configuration, started.
func running(t *testing.T, host string) (*harness.Runtime, string) {
	t.Helper()
	r, id := harness.NewRuntimeWith(t, host), harness.NewID()
	r.Must(t, "run", "--detach", "--bundle", annotated(t, "", ""), id)
	return r, id
}

// annotated is the directory of a bundle that sleeps, with one annotation.
func annotated(t *testing.T, key, value string) string {
	t.Helper()
	return harness.NewBundle(t, func(s *specs.Spec) {
		s.Process.Args = []string{"sleep", "1000"}
		s.Process.Env = append(s.Process.Env, "TOKEN=hunter2")
		if key != "" {
			s.Annotations = map[string]string{"sage.sandbox." + key: value}
		}
	}).Dir
}

// TestAudit: every event of a container's life is written down, refusals too,
// and nothing of its arguments and environment.
func TestAudit(t *testing.T) {
	dir := harness.TempDir(t)
	host := harness.SoftSage + "audit_dir: " + dir + "\n"
	r, id := running(t, host)
	r.Must(t, "exec", "--user", "7", id, "true", "hunter2")
	r.Must(t, "update", "--pids-limit", "32", id)
	if res := r.Run(t, "exec", "--env", "_LIBCONTAINER_INITPIPE=0", id, "true"); res.Code == 0 {
		t.Errorf("got %s, want a refusal to write down", res)
	}
	r.Must(t, "delete", "--force", id)
	if res := r.Run(t, "run", "--bundle", harness.NewBundle(t, harness.Args("sh", "-c", "exit 3")).Dir, id+".2"); res.Code != 3 {
		t.Errorf("got %s, want exit status 3", res)
	}

	text := readText(t, filepath.Join(dir, id+".jsonl"))
	if strings.Contains(text, "hunter2") {
		t.Errorf("an argument or a variable is in the audit: %s", text)
	}
	want := []string{"create sage", "start ", "exec ", "update ", "refuse  sandbox.permission_denied", "delete "}
	if diff := cmp.Diff(want, events(t, text)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	want = []string{"create sage", "start ", "exit  exited 3"}
	if diff := cmp.Diff(want, events(t, readText(t, filepath.Join(dir, id+".2.jsonl")))); diff != "" {
		t.Errorf("events of run (-want +got):\n%s", diff)
	}
}

func events(t *testing.T, text string) (out []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e struct {
			Event, Profile, Code, Reason string
			Status                       *int
		}
		check(t, json.Unmarshal([]byte(line), &e))
		s := e.Event + " " + e.Profile
		for _, more := range []string{e.Code, e.Reason} {
			if more != "" {
				s += " " + more
			}
		}
		if e.Status != nil {
			s += " " + string(rune('0'+*e.Status))
		}
		out = append(out, s)
	}
	return out
}

// TestAuditFails: what cannot be written down is not started.
func TestAuditFails(t *testing.T) {
	r := harness.NewRuntimeWith(t, harness.SoftSage+"audit_dir: /nonexistent/audit\n")
	res := r.Run(t, "run", "--bundle", harness.NewBundle(t, harness.Args("echo", "ran")).Dir, harness.NewID())
	refused(t, r, res, "", "audit")
	if strings.Contains(res.Stdout, "ran") {
		t.Error("the program was run")
	}
}

// TestPolicyStale: an exec under another policy than the container's is
// refused, one under another text with the same meaning is not, and the
// container can be deleted whatever the host's file says.
//
// Proves: S-013, S-020, E-022.
func TestPolicyStale(t *testing.T) {
	r, id := running(t, harness.SoftAgent)
	r.Must(t, "exec", id, "true")
	for name, tt := range map[string]struct{ host, code string }{
		"tightened":       {strings.ReplaceAll(harness.SoftAgent, "{require_hard_limits: false}", "{require_hard_limits: false, memory_mb: 512}"), "sandbox.policy_stale"},
		"another default": {harness.SoftSage, "sandbox.policy_stale"},
		"no policy now":   {harness.Compat, "sandbox.policy_stale"},
		"not a text":      {"version: 1\nnonsense: true\n", "sandbox.config_invalid"},
		"a comment more":  {harness.SoftAgent + "# nothing\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			other := *r
			other.Config = harness.HostFile(t, tt.host)
			res := other.Run(t, "exec", id, "echo", "in")
			if (res.Code == 0) != (tt.code == "") || !strings.Contains(res.Stderr, tt.code) {
				t.Errorf("got %s, want code %q", res, tt.code)
			}
			if got := strings.Contains(res.Stdout, "in"); got != (tt.code == "") {
				t.Errorf("the program was run: %v", got)
			}
		})
	}
	other := *r
	other.Config = harness.HostFile(t, "version: 1\nnonsense: true\n")
	for _, verb := range [][]string{{"state", id}, {"ps", id}, {"kill", id, "0"}, {"delete", "--force", id}} {
		other.Must(t, verb...)
	}
}

// TestStateTampered: a container whose record is gone or changed is not taken
// for one without policy.
func TestStateTampered(t *testing.T) {
	for name, tamper := range map[string]func(path string) error{
		"gone":    os.Remove,
		"looser":  func(path string) error { return replaceIn(path, `"allow_ptrace":false`, `"allow_ptrace":true`) },
		"another": func(path string) error { return replaceIn(path, `"version":1`, `"version":9`) },
	} {
		t.Run(name, func(t *testing.T) {
			r, id := running(t, harness.SoftSage)
			check(t, tamper(filepath.Join(r.Root, id, "sage.json")))
			for _, verb := range [][]string{{"exec", id, "true"}, {"update", "--pids-limit", "8", id}, {"attest", id}, {"checkpoint", id}} {
				if res := r.Run(t, verb...); res.Code == 0 || !strings.Contains(res.Stderr, "sandbox.state_invalid") {
					t.Errorf("%v: got %s, want sandbox.state_invalid", verb, res)
				}
			}
			r.Must(t, "delete", "--force", id)
		})
	}
}

func replaceIn(path, from, to string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(data), from, to, 1)), 0o600)
}

// TestUpdate: an update lowers what a container has, and never raises it.
//
// Proves: S-020.
func TestUpdate(t *testing.T) {
	r, id := running(t, harness.SoftSage)
	for _, tt := range []struct {
		args []string
		ok   bool
	}{
		{[]string{"--pids-limit", "32"}, true},
		{[]string{"--pids-limit", "33"}, false},
		{[]string{"--pids-limit", "-1"}, false},
		{[]string{"--memory", "512m", "--memory-swap", "512m"}, true},
		{[]string{"--memory", "1g"}, false},
		{[]string{"--memory-swap", "-1"}, false},
		{[]string{"--memory", "256m"}, false}, // what is left would be swap
		{[]string{"--cpu-quota", "50000", "--cpu-period", "100000"}, true},
		{[]string{"--cpu-quota", "-1"}, false},
		{[]string{"--cpu-quota", "50000", "--cpu-period", "50000"}, false},
		{[]string{"--cpu-quota", "100000", "--cpu-period", "100000"}, false},
		{[]string{"--cpu-share", "4096"}, false},
		{[]string{"--l3-cache-schema", "L3:0=f"}, false},
	} {
		res := r.Run(t, append(append([]string{"update"}, tt.args...), id)...)
		if (res.Code == 0) != tt.ok {
			t.Errorf("update %v: got %s, want it accepted: %v", tt.args, res, tt.ok)
		}
		if !tt.ok && !strings.Contains(res.Stderr, "sandbox.permission_denied") {
			t.Errorf("update %v: got %s, want sandbox.permission_denied", tt.args, res)
		}
	}
	wantAttested(t, r, id, "")
}

// TestCompatOnly: what an image of a process could carry past the policy.
func TestCompatOnly(t *testing.T) {
	r, id := running(t, harness.SoftAgent)
	if res := r.Run(t, "checkpoint", "--image-path", harness.TempDir(t), id); !strings.Contains(res.Stderr, "sandbox.capability_unsupported") {
		t.Errorf("checkpoint: got %s", res)
	}
	bundle := harness.NewBundle(t, harness.Args("true")).Dir
	r2 := harness.NewRuntimeWith(t, harness.SoftAgent)
	refused(t, r2, r2.Run(t, "restore", "--bundle", bundle, "--image-path", harness.TempDir(t), harness.NewID()), "sandbox.capability_unsupported", "compat")
	refused(t, r2, r2.Run(t, "run", "--no-pivot", "--bundle", bundle, harness.NewID()), "sandbox.permission_denied", "pivot_root")
}

// TestNotYet: what this host cannot enforce is refused at create, with the
// limits that are missing.
//
// Proves: S-010, K-02, S-015, S-144, G-18.
func TestNotYet(t *testing.T) {
	for name, tt := range map[string]struct{ host, key, value, code, phrase string }{
		"hard limits by the host":   {harness.BuiltIn, "resources.max_processes", "8", "sandbox.resource_limits_unsupported", "missing_limits: cpu, memory, disk, process_count"},
		"hard limits by the bundle": {harness.SoftSage, "resources.require_hard_limits", "true", "sandbox.resource_limits_unsupported", "missing_limits"},
		"half of a prepared host":   {harness.SoftSage + "linux_quota_mount: /tmp\n", "resources.max_processes", "8", "sandbox.resource_limits_unsupported", "nothing is metered"},
		"above the ceiling":         {harness.SoftSage, "resources.memory_mb", "2048", "sandbox.limit_exceeded", "memory_mb"},
		"unknown key":               {harness.SoftSage, "resources.memory", "1", "sandbox.annotation_invalid", "resources.memory"},
		"unknown profile":           {harness.SoftSage, "profile", "root", "sandbox.profile_unavailable", "profile"},
		"compat by a bundle":        {harness.SoftSage, "profile", "compat", "sandbox.profile_unavailable", "profile"},
	} {
		t.Run(name, func(t *testing.T) {
			r := harness.NewRuntimeWith(t, tt.host)
			dir := annotated(t, tt.key, tt.value)
			refused(t, r, r.Run(t, "create", "--bundle", dir, harness.NewID()), tt.code, tt.phrase)
			if res := r.Run(t, "policy", "--bundle", dir); res.Code != 1 {
				t.Errorf("policy: got %s, want exit status 1 as create would refuse", res)
			}
		})
	}
}

// TestPolicyCommand: what policy prints for a bundle is what create then does.
func TestPolicyCommand(t *testing.T) {
	r, id := harness.NewRuntimeWith(t, harness.SoftAgent), harness.NewID()
	dir := annotated(t, "resources.max_processes", "77")
	var e struct {
		Digest  string `json:"policy_digest"`
		Policy  struct{ Profile string }
		Reasons []struct{ Field, Value, Source, Ceiling string }
		Layer2  struct{ SHA256 string } `json:"seccomp_layer2"`
	}
	check(t, json.Unmarshal([]byte(r.Must(t, "policy", "--bundle", dir, "--json").Stdout), &e))
	found := false
	for _, reason := range e.Reasons {
		found = found || reason.Field == "resources.max_processes" && reason.Value == "77" && reason.Source == "annotation" && reason.Ceiling == "1024"
	}
	if !found || e.Policy.Profile != "agent" {
		t.Errorf("got %+v, want the annotation's value with its ceiling", e)
	}
	if text := r.Must(t, "policy", "--bundle", dir).Stdout; !strings.Contains(text, e.Layer2.SHA256) || !strings.Contains(text, "resources.max_processes") {
		t.Errorf("got %s, want the same for people", text)
	}
	r.Must(t, "create", "--bundle", dir, id)
	var a struct {
		Digest string `json:"policy_digest"`
		Lines  []struct{ Field, Got string }
	}
	check(t, json.Unmarshal([]byte(r.Must(t, "attest", id).Stdout), &a))
	if a.Digest != e.Digest {
		t.Errorf("got a container under policy %s, want %s as printed", a.Digest, e.Digest)
	}
	if got := r.Run(t, "policy", "--profile", "nobody"); got.Code == 0 || !strings.Contains(got.Stderr, "sandbox.profile_unavailable") {
		t.Errorf("unknown profile: got %s", got)
	}
}

// TestCheckCommand: check reads the host's file, tries the host, and its exit
// status says whether the default profile works.
func TestCheckCommand(t *testing.T) {
	for host, want := range map[string]int{harness.SoftSage: 0, harness.BuiltIn: 1, harness.Compat: 0} {
		r := harness.NewRuntimeWith(t, host)
		res := r.Run(t, "check", "--json")
		var report struct {
			OK       bool
			Default  string `json:"default_profile"`
			Findings []struct {
				Name string
				OK   bool
			}
		}
		check(t, json.Unmarshal([]byte(res.Stdout), &report))
		if res.Code != want || report.OK != (want == 0) || len(report.Findings) < 15 {
			t.Errorf("%s: got exit status %d and %+v, want status %d", host, res.Code, report, want)
		}
		for _, f := range report.Findings {
			if f.Name == "bridge and proxy" && !f.OK {
				t.Errorf("%s: got %+v, want them to serve here", host, f)
			}
		}
		if text := r.Run(t, "check").Stdout; !strings.Contains(text, "seccomp read-back") || !strings.Contains(text, report.Default) {
			t.Errorf("got %s, want the same for people", text)
		}
	}
	r := harness.NewRuntimeWith(t, "version: 1\nprofiles: {sage: {}, sage: {}}\n")
	if res := r.Run(t, "check"); res.Code == 0 || !strings.Contains(res.Stderr, "line 2") || !strings.Contains(res.Stderr, "sandbox.config_invalid") {
		t.Errorf("duplicate profile: got %s, want the line", res)
	}
}

// TestPauseIsNoWayRound: to say that one is a pod's pause container, which any
// bundle can, gets nobody round the limits that the host requires.
//
// Proves: S-010.
func TestPauseIsNoWayRound(t *testing.T) {
	r := harness.NewRuntimeWith(t, harness.BuiltIn)
	for _, key := range []string{"io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"} {
		b := harness.NewBundle(t, func(s *specs.Spec) { s.Annotations = map[string]string{key: "sandbox"} })
		res := r.Run(t, "run", "--bundle", b.Dir, harness.NewID())
		if res.Code == 0 || !strings.Contains(res.Stderr, "missing_limits: cpu, memory, process_count") {
			t.Errorf("%s: got %s, want the limits required", key, res)
		}
	}
}
