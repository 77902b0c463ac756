//go:build kernel

package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestAttack19: LeakSanitizer stops its own threads with ptrace, so a program
// built with it is a test of who may use that.
func TestAttack19(t *testing.T) {
	root := sanitizedRoot(t)
	for _, c := range []struct {
		name, host string
		works      bool
	}{
		{"sage", harness.SoftSage, false},
		{"agent", harness.SoftAgent, true},
		{"service", harness.SoftService, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := harness.NewRuntimeWith(t, c.host)
			b := harness.NewBundle(t, func(s *specs.Spec) { s.Root.Path, s.Process.Args = root, []string{"/clean"} })
			res := r.Run(t, "run", "--bundle", b.Dir, harness.NewID())
			if (res.Code == 0) != c.works {
				t.Errorf("got %s, want it to end well: %t", res, c.works)
			}
			if !c.works && !strings.Contains(res.Stderr, "LeakSanitizer") {
				t.Errorf("got %s, want LeakSanitizer to say that it cannot do its work", res)
			}
		})
	}
}

// sanitizedRoot is a Busybox tree with the program and the libraries that it is
// linked to; there is no static form of this one.
func sanitizedRoot(t *testing.T) string {
	t.Helper()
	root := harness.PrivateRoot(t)
	program := filepath.Join(root, "clean")
	_, err := harness.Output(exec.Command("cc", "-fsanitize=address", "-O1", "-o", program, filepath.Join("testdata", "clean.c")))
	check(t, err)
	out, err := harness.Output(exec.Command("ldd", program))
	check(t, err)
	for field := range strings.FieldsSeq(out) {
		if !strings.HasPrefix(field, "/") {
			continue
		}
		to := filepath.Join(root, field)
		check(t, os.MkdirAll(filepath.Dir(to), 0o755))
		_, err := harness.Output(exec.Command("cp", "-L", field, to))
		check(t, err)
	}
	return root
}
