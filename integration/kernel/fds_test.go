//go:build kernel

package kernel

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

const activate = "export LISTEN_FDS=1 LISTEN_PID=$$;" // The shell's pid stays over exec.

// fdCase is a way to start the runtime with three open files above its standard
// ones, and what the payload has of them.
type fdCase struct {
	name  string
	flags []string
	// shell runs before the runtime, in the process that becomes it.
	shell string
	// Sockets of systemd's activation are the container's, so run has them and
	// an exec has not.
	run, exec []string
}

var fdCases = []fdCase{
	{"none", nil, "", nil, nil},
	{"preserved", []string{"--preserve-fds", "2"}, "", []string{"3 first", "4 second"}, []string{"3 first", "4 second"}},
	{"socket activation", nil, activate, []string{"3 first"}, nil},
	{"both", []string{"--preserve-fds", "1"}, activate, []string{"3 first", "4 second"}, []string{"3 first"}},
	{"activation of another process", nil, "export LISTEN_FDS=1 LISTEN_PID=1;", nil, nil},
}

// TestDescriptors: a payload has its three and what was asked for, although the
// runtime has open files of its caller, as from a careless daemon, and its own:
// the log, the state folder, cgroups.
func TestDescriptors(t *testing.T) {
	for _, c := range fdCases {
		t.Run("run/"+c.name, func(t *testing.T) { c.compare(t, "run", c.run) })
		t.Run("exec/"+c.name, func(t *testing.T) { c.compare(t, "exec", c.exec) })
	}
}

func (c *fdCase) compare(t *testing.T, verb string, want []string) {
	t.Helper()
	r := harness.NewRuntime(t)
	r.Global = []string{"--debug", "--log", filepath.Join(harness.TempDir(t), "log")}
	files, edit := openFiles(t), throughShell(c.shell)
	res := r.StartWith(t, func(cmd *exec.Cmd) {
		cmd.ExtraFiles = files
		edit(cmd)
	}, listFDs(t, r, verb, c.flags)...).Wait(t)
	exitsWith(t, res, 0)
	if diff := cmp.Diff(want, aboveTwo(res.Stdout)); diff != "" {
		t.Errorf("descriptors (-want +got):\n%s", diff)
	}
}

// listFDs returns the command line that makes a payload list its descriptors.
func listFDs(t *testing.T, r *harness.Runtime, verb string, flags []string) []string {
	t.Helper()
	probe := harness.Probe(t, "fds")
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		harness.WithProbes(t, s)
		s.Process.Args = []string{probe}
		if verb == "exec" {
			s.Process.Args = []string{"sleep", "1000"}
		}
	})
	id := harness.NewID()
	if verb == "run" {
		return slices.Concat([]string{"run"}, flags, []string{"--bundle", bundle.Dir, id})
	}
	r.Must(t, "run", "--detach", "--bundle", bundle.Dir, id)
	return slices.Concat([]string{"exec"}, flags, []string{id, probe})
}

func openFiles(t *testing.T) []*os.File {
	t.Helper()
	dir := harness.TempDir(t)
	var files []*os.File
	for _, name := range []string{"first", "second", "third"} {
		f, err := os.Create(filepath.Join(dir, name))
		check(t, err)
		t.Cleanup(func() { f.Close() })
		files = append(files, f)
	}
	return files
}

func aboveTwo(listing string) []string {
	var got []string
	for line := range strings.Lines(listing) {
		number, target, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.Atoi(number); err != nil || n > 2 {
			got = append(got, number+" "+filepath.Base(target))
		}
	}
	return got
}

// TestPreserveWhatIsNotThere: the runtime's own descriptors have the lowest
// free numbers. Asked to preserve more than its caller opened, it must refuse
// and not hand those to the payload.
func TestPreserveWhatIsNotThere(t *testing.T) {
	r := harness.NewRuntime(t)
	res := r.Run(t, listFDs(t, r, "run", []string{"--preserve-fds", "2"})...)
	if harness.IsRunc(t, r.Bin) {
		t.Logf("runc handed over %q", aboveTwo(res.Stdout))
		return
	}
	refused(t, r, res, 1)
	if want := "unable to stat preserved-fd"; !strings.Contains(said(res), want) {
		t.Errorf("got %q, want %q", res.Stderr, want)
	}
}

// TestWorkingDirectoryLeak is CVE-2024-21626: a working directory given as a
// descriptor that the runtime had open outside the container.
func TestWorkingDirectoryLeak(t *testing.T) {
	r := harness.NewRuntime(t)
	id := sleeper(t, r)
	payload := []string{"sh", "-c", "echo the payload ran; ls ."}
	for fd := 3; fd <= 20; fd++ {
		cwd := "/proc/self/fd/" + strconv.Itoa(fd)
		bundle := harness.NewBundle(t, func(s *specs.Spec) { s.Process.Args, s.Process.Cwd = payload, cwd })
		neverRan(t, cwd, r.Run(t, "run", "--bundle", bundle.Dir, harness.NewID()))
		neverRan(t, cwd, r.Run(t, append([]string{"exec", "--cwd", cwd, id}, payload...)...))
	}
}

func neverRan(t *testing.T, cwd string, res harness.Result) {
	t.Helper()
	if res.Code == 0 || strings.Contains(res.Stdout, "the payload ran") {
		t.Errorf("cwd %s: %s, want a refusal", cwd, res)
	}
}
