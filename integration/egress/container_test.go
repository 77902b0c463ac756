//go:build kernel

package egress

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/caller"
	"github.com/sage-sandbox/sage/integration/harness"
)

// hostText is a host's file under which containers may reach the world by the
// names allowed.test and *.wild.test.
func (w *world) hostText(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf(`version: 1
default_profile: agent
audit_dir: %s
read_paths: [%s]
shared_namespaces: [network]
egress: {nameservers: ["%s"], reachable: [%s]}
profiles:
  sage: {defaults: {resources: {require_hard_limits: false}}}
  agent:
    defaults:
      resources: {require_hard_limits: false}
      network: {mode: allowlist, allowed_hosts: ["https://allowed.test:%d", "http://allowed.test:%d", "*.wild.test:%[5]d"]}
    limits: {network: {modes: [none, allowlist], dials: [auto, engine, host]}}
`, harness.TempDir(t), w.dir, w.Resolver, w.ip, w.HTTPS, w.HTTP)
}

// runtime is one under that file, and bundle a container that does what the
// client is told.
func (w *world) runtime(t *testing.T) *harness.Runtime {
	t.Helper()
	return harness.NewRuntimeWith(t, w.hostText(t))
}

func (w *world) bundle(t *testing.T, edit func(*specs.Spec), does ...string) string {
	t.Helper()
	return harness.NewBundle(t, func(s *specs.Spec) {
		s.Process.Args = w.args(does...)
		s.Process.Env = append(s.Process.Env, "HTTPS_PROXY=http://127.0.0.1:9", "no_proxy=*")
		if edit != nil {
			edit(s)
		}
	}).Dir
}

func (w *world) args(does ...string) []string {
	return append([]string{filepath.Join(w.dir, "client"), caller.Verb}, does...)
}

func (w *world) url(scheme, host string) string {
	port := w.HTTPS
	if scheme == "http" {
		port = w.HTTP
	}
	return fmt.Sprintf("%s://%s:%d/", scheme, host, port)
}

func annotate(key, value string) func(*specs.Spec) {
	return func(s *specs.Spec) {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations["sage.sandbox."+key] = value
	}
}

// want compares the client's lines, each "what it did: what came of it".
func want(t *testing.T, out string, lines map[string]string) {
	t.Helper()
	for did, result := range lines {
		found := false
		for line := range strings.Lines(out) {
			if got, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), did+": "); ok {
				found = true
				if !strings.Contains(got, result) {
					t.Errorf("%s: got %s, want %s", did, got, result)
				}
			}
		}
		if !found {
			t.Errorf("%s: saw no such line", did)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s", out)
	}
}

// serving is the record of a container's network.
type serving struct {
	Port          int
	Bridge, Proxy *struct{ Pid int }
	DialsFrom     string `json:"dials_from"`
}

func servingOf(t *testing.T, r *harness.Runtime, id string) (s serving) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.Root, id, "sage-network.json"))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil || s.Bridge == nil {
		t.Fatalf("record of the network: %v, %s", err, data)
	}
	return s
}

func alive(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid))
	return err == nil
}
