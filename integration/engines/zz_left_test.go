//go:build engines

package engines

import "testing"

// TestNothingIsLeft is in the last file, since Go runs tests in the order of
// the files: it stops the daemons and looks at what is still in the capsule.
// The outer stage then compares the host itself.
func TestNothingIsLeft(t *testing.T) {
	theRing.wantNoPanics(t)
	theRing.stop()
	for _, l := range theRing.clean.awaitSame(capsuleView) {
		t.Errorf("left behind: %s", l)
	}
}

// A panic in a shim ends up in its daemon's log and nowhere else.
func (r *ring) wantNoPanics(t *testing.T) {
	t.Helper()
	for _, d := range r.running {
		for _, phrase := range []string{"panic:", "runtime error:", "fatal error:"} {
			for _, line := range d.grep(phrase) {
				t.Errorf("%s: %s", d.log, line)
			}
		}
	}
}
