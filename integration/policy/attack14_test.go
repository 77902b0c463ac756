//go:build kernel

package policy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// private are variables of libcontainer's own, by which its init finds the
// descriptors of its parent.
var private = []string{
	"_LIBCONTAINER_INITPIPE=0", "_LIBCONTAINER_LOGPIPE=2", "_LIBCONTAINER_FIFOFD=0", "_LIBCONTAINER_INITTYPE=standard",
	"_LIBCONTAINER_STATEDIR=/", "_LIBCONTAINER_=", "_LIBCONTAINER_ANYTHING=secretvalue",
}

// TestAttack14: in a bundle, on exec's command line and in its file, under every
// profile that has a policy.
//
// Proves: S-042.
func TestAttack14(t *testing.T) {
	for _, p := range profiles {
		t.Run(string(p.name), func(t *testing.T) {
			r := harness.NewRuntimeWith(t, p.host)
			for _, variable := range private {
				b := harness.NewBundle(t, func(s *specs.Spec) {
					s.Process.Args, s.Process.Env = []string{"true"}, append(s.Process.Env, variable)
				})
				res := r.Run(t, "run", "--bundle", b.Dir, harness.NewID())
				refused(t, r, res, denied, "_LIBCONTAINER_")
				silent(t, res)
			}
			privateInExec(t, r)
		})
	}
}

func privateInExec(t *testing.T, r *harness.Runtime) {
	t.Helper()
	id := harness.NewID()
	r.Must(t, "run", "--detach", "--bundle", harness.NewBundle(t, harness.Args("sleep", "1000")).Dir, id)
	for _, variable := range private {
		process := *harness.DefaultSpec(t).Process
		process.Args, process.Env = []string{"true"}, append(process.Env, variable)
		for _, res := range []harness.Result{
			r.Run(t, "exec", "--env", variable, id, "true"),
			r.Run(t, "exec", "--process", processFile(t, process), id),
		} {
			if res.Code == 0 || !strings.Contains(res.Stderr, "["+denied+"]") {
				t.Errorf("exec with %s: got %s, want a refusal", variable, res)
			}
			silent(t, res)
		}
	}
	r.Must(t, "exec", id, "true")
	r.Must(t, "delete", "--force", id)
}

// silent: the value of a variable may be a secret, and a message goes far.
func silent(t *testing.T, res harness.Result) {
	t.Helper()
	if strings.Contains(res.Stdout+res.Stderr, "secretvalue") {
		t.Errorf("got %s, want no value of a variable", res)
	}
}

// processFile is for exec --process.
func processFile(t *testing.T, p specs.Process) string {
	t.Helper()
	data, err := json.Marshal(p)
	check(t, err)
	name := filepath.Join(harness.TempDir(t), "process.json")
	check(t, os.WriteFile(name, data, 0o600))
	return name
}
