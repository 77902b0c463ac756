//go:build engines

package engines

import (
	"slices"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

var mayAllowed = annotated(allowlisted("allowed.test"))

// fromOwnNamespace is what a container reaches that shares its network with none.
var fromOwnNamespace = []harness.Tried{
	{"curl -sS https://allowed.test/", harness.Answered},
	{"curl -sS http://allowed.test/", harness.Answered},
	{"curl -sSi https://denied.test/", harness.DeniedHost},
	{"curl -sSi http://denied.test/", harness.DeniedHost},
	{"curl -sSi https://" + outsideIP + "/", harness.DeniedHost},
	{"curl -sS --unix-socket /run/sage/egress.sock --request-target http://allowed.test/ http://allowed.test/", harness.Answered},
	{"curl -sS --noproxy '*' https://allowed.test/", harness.Answered},
	{"curl -sS --noproxy '*' https://denied.test/", harness.NoName},
	{"nc -w 5 " + outsideIP + " 443 </dev/null", harness.NoNetwork},
	{"nc -w 5 127.0.0.11 53 </dev/null", harness.NoNetwork},
}

// ctr attaches no network: what is allowed is dialled from the host.
//
// Proves: S-060, S-076, S-079, S-089.
func TestEgressContainerd(t *testing.T) {
	w := newOutside(t)
	for _, k := range []struct {
		name, root string
		way        []string
	}{
		{"runc shim", "/run/containerd/runc/", wayOut.ctr()},
		{"sage shim", "/run/containerd/sage/", wayOut.ctrShim()},
	} {
		t.Run(k.name, func(t *testing.T) { egressCtr(t, newCtr(t, k.way), k.root+theRing.name) })
	}
	wantUnasked(t, w)
}

func egressCtr(t *testing.T, c ctr, root string) {
	id := newID()
	t.Cleanup(func() {
		c.quietly("tasks", "delete", "--force", id)
		c.quietly("containers", "delete", id)
	})
	c.must(t, slices.Concat([]string{"run", "--detach"}, c.way, mayAllowed, []string{harness.CurlImage, id, "sleep", "1000"})...)
	s := servedUnder(t, root, id)
	if s.DialsFrom != "host" {
		t.Errorf("dials from: got %s, want host", s.DialsFrom)
	}
	harness.TryEach(t, func(script string) string { return c.exec(t, nil, id, "sh", "-c", script).out }, fromOwnNamespace)
	s.attested(t)
	wantAudit(t, id, `"action":"allow"`, `"host":"allowed.test"`, `"addr":"`+outsideIP+`:443"`, `"dials":"host"`)
	wantAudit(t, id, `"action":"deny"`, `"host":"denied.test"`, `"code":"sandbox.egress_host_denied"`)
	c.must(t, "tasks", "kill", "--signal=KILL", id)
	c.awaitStatus(t, id, "STOPPED")
	eventually(t, "processes of a container that has ended", "none", s.processes)
	c.must(t, "tasks", "delete", "--force", id)
	s.gone(t)
}

// wantUnasked: what is denied was neither looked up nor reached, and what is
// allowed was, or nothing could have been.
func wantUnasked(t *testing.T, w *harness.World) {
	t.Helper()
	if w.Asked("denied") || w.Served("denied") || w.Served(outsideIP) {
		t.Error("a name that is denied, or an address, was asked for outside")
	}
	if !w.Asked("allowed.test") || !w.Served("allowed.test") {
		t.Error("saw nobody ask for what is allowed")
	}
}
