//go:build engines

package engines

import (
	"slices"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

// nerdctl gives a container a network before its program begins, by a hook: the
// proxy dials through that, and nothing of the container's own does.
//
// Proves: S-060, S-079, S-089.
func TestEgressNerdctl(t *testing.T) {
	w := newOutside(t)
	// Under no policy, so that what is not reached below is there.
	free, n := newNerdctl(t, theRing.runtimeBinary()), newNerdctl(t, wayOut.nerdctl())
	server := free.detached(t, busybox, "nc", "-ll", "-p", "80", "-e", "echo", "hello over CNI")
	address := free.must(t, "inspect", "--format", "{{.NetworkSettings.IPAddress}}", server)
	eventually(t, "answer over the bridge", "hello over CNI\n", func() string {
		return free.try(t, free.args("--rm", busybox, "nc", "-w", "5", address, "80")...).out
	})
	id := n.detached(t, slices.Concat(mayAllowed, []string{harness.CurlImage, "sleep", "1000"})...)
	s := servedUnder(t, "/run/containerd/runc/"+theRing.name, id)
	if s.DialsFrom != "engine" {
		t.Errorf("dials from: got %s, want engine", s.DialsFrom)
	}
	harness.TryEach(t, func(script string) string { return n.try(t, "exec", id, "sh", "-c", script).out }, append([]harness.Tried{
		{"nc -w 5 " + address + " 80 </dev/null", harness.NoNetwork},
		{"curl -sSi http://" + address + "/", harness.DeniedHost},
	}, fromOwnNamespace...))
	wantAudit(t, id, `"action":"allow"`, `"host":"allowed.test"`, `"dials":"engine"`)
	n.must(t, "rm", "--force", id)
	s.gone(t)
	wantUnasked(t, w)
}

// annotated puts annotations as flags before the other arguments.
func annotated(annotations map[string]string, args ...string) (flags []string) {
	for key, value := range annotations {
		flags = append(flags, "--annotation", key+"="+value)
	}
	return append(flags, args...)
}
