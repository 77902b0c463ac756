//go:build k8s

package k8s

import (
	"slices"
	"strings"
	"testing"
)

// TestRefused has pods that ask for more than the host gives. The user is told
// so where Kubernetes tells such things, with the field and the code.
//
// Proves: G-27, S-045.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(meta, spec object)
		want []string
	}{
		{"annotation-unknown", annotated("resources.memory_gb", "1"), []string{"resources.memory_gb", "[sandbox.annotation_invalid]"}},
		{"profile-of-the-host", annotated("profile", "compat"), []string{"sage.sandbox.profile", "[sandbox.profile_unavailable]"}},
		{"resources-above-ceiling", func(_, spec object) {
			first(spec)["resources"] = limits("1Gi", "500m")
		}, []string{"memory", "[sandbox.limit_exceeded]"}},
		{"privileged", func(_, spec object) {
			first(spec)["securityContext"] = object{"privileged": true}
		}, []string{"[sandbox.permission_denied]"}},
		{"host-network", func(_, spec object) { spec["hostNetwork"] = true }, []string{"network namespace", "[sandbox.permission_denied]"}},
		{"host-pid", func(_, spec object) { spec["hostPID"] = true }, []string{"pid namespace", "[sandbox.permission_denied]"}},
		{"engine-socket", func(_, spec object) {
			spec["volumes"] = []object{{"name": "v", "hostPath": object{"path": "/run/containerd"}}}
			first(spec)["volumeMounts"] = []object{{"name": "v", "mountPath": "/v"}}
		}, []string{"mounts[", "[sandbox.permission_denied]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := create(t, manifest(c.name, "exec sleep 1000", c.edit))
			p.refusal(c.want...)
		})
	}
}

// refusal waits for an event that says all of this in one line.
func (p pod) refusal(want ...string) {
	p.t.Helper()
	eventually(p.t, "an event with "+strings.Join(want, " "), func() (string, bool) {
		messages := p.messages()
		return strings.Join(messages, "\n"), slices.ContainsFunc(messages, holds(want))
	})
}

func holds(phrases []string) func(string) bool {
	return func(line string) bool {
		return !slices.ContainsFunc(phrases, func(phrase string) bool { return !strings.Contains(line, phrase) })
	}
}

// TestRefusalIsShown has one of them as a user sees it.
func TestRefusalIsShown(t *testing.T) {
	want := []string{"resources.disk_mb", "[sandbox.limit_exceeded]"}
	p := create(t, manifest("shown", "exec sleep 1000", annotated("resources.disk_mb", "99999999")))
	p.refusal(want...)
	shown := kubectl(t, "get", "events", "--field-selector", "involvedObject.name="+p.name)
	if !slices.ContainsFunc(strings.Split(shown, "\n"), holds(want)) {
		t.Errorf("kubectl get events shows\n%s\nwant %v in one line", shown, want)
	}
}
