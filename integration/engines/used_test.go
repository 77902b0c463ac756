//go:build engines

package engines

import (
	"os"
	"testing"
)

// standIn takes the place of a program under test and fails in its own way.
const standIn = "#!/bin/sh\necho the ring put this here >&2\nexit 97\n"

// A green ring means nothing if an engine quietly ran another runtime: its own
// default, or one that is installed on the machine. So each way has to fail,
// and with the stand-in's own status, when the program is not the real one.
func TestProgramsUnderTest(t *testing.T) {
	needDockerd(t)
	t.Run("runtime", func(t *testing.T) {
		replaceProgram(t, theRing.runtimeBinary())
		for name := range theRing.dockerRuntimes() {
			wantStandIn(t, name, newDocker(t, name).run(t, busybox, "true"))
		}
		for _, w := range ctrWays {
			wantStandIn(t, w.name, newCtr(t, w.way()).run(t, "true"))
		}
	})
	t.Run("shim", func(t *testing.T) {
		replaceProgram(t, theRing.shimBinary())
		for _, name := range []string{"sage-shim", "sage-shim-binary", "sage-shim-file", "io.containerd.sage.v2"} {
			wantStandIn(t, name, newDocker(t, name).run(t, busybox, "true"))
		}
		wantStandIn(t, ctrWays[1].name, newCtr(t, ctrWays[1].way()).run(t, "true"))
	})
}

// replaceProgram puts the stand-in at the path until the test is over.
func replaceProgram(t *testing.T, path string) {
	t.Helper()
	away := path + ".away"
	if err := os.Rename(path, away); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Rename(away, path); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(path, []byte(standIn), 0o755); err != nil {
		t.Fatal(err)
	}
}

func wantStandIn(t *testing.T, way string, r result) {
	t.Helper()
	t.Run(way, func(t *testing.T) {
		if r.code == 0 {
			t.Errorf("exit code: got 0, want a failure; output: %s%s", r.out, r.errs)
		}
		r.want(t, r.code, "exit status 97")
	})
}
