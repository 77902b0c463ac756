//go:build vm

package hardlimits

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sage-sandbox/sage/integration/harness"
)

const (
	enginesDir   = quotaDir + "/engines"
	enginesAudit = "/var/log/sage-engines"
	enginesSpace = quotaDir + "/engine-space" // a workspace that the host lists
	mebibyte     = 1 << 20
)

// enginesHost requires hard limits, as every host does by default.
const enginesHost = hard + "default_profile: agent\naudit_dir: " + enginesAudit + "\nwrite_paths: [" + enginesSpace + "]\n"

// docker is the client of a real daemon, with one of the ways in which it can
// start sage.
type docker struct {
	d       *harness.Docker
	runtime string
}

// answer is what a client printed and how it ended.
type answer struct {
	out, errs string
	code      int
}

func (a answer) String() string {
	return fmt.Sprintf("exit %d, stdout %.600q, stderr %.1200q", a.code, a.out, a.errs)
}

func ask(t *testing.T, cmd *exec.Cmd) answer {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	check(t, harness.StartCommand(cmd))
	// Longer than anything takes here: to reach it means to hang.
	timer := time.AfterFunc(4*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err := harness.WaitCommand(cmd)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return answer{strings.TrimSpace(out.String()), strings.ReplaceAll(errs.String(), `\"`, `"`), cmd.ProcessState.ExitCode()}
}

func (e docker) try(t *testing.T, args ...string) answer {
	t.Helper()
	return ask(t, e.d.Command(t, args...))
}

func (e docker) must(t *testing.T, args ...string) string {
	t.Helper()
	return e.d.Must(t, args...)
}

func (e docker) args(verb string, more []string) []string {
	return append([]string{verb, "--network=none", "--runtime=" + e.runtime}, more...)
}

// run is docker run --rm in the foreground; more are flags, image and command.
func (e docker) run(t *testing.T, more ...string) answer {
	t.Helper()
	return e.try(t, e.args("run", append([]string{"--rm"}, more...))...)
}

// start is docker run --detach; the container goes with the test.
func (e docker) start(t *testing.T, more ...string) string {
	t.Helper()
	id := e.must(t, e.args("run", append([]string{"--detach"}, more...))...)
	t.Cleanup(func() { e.remove(t, id) })
	return id
}

func (e docker) create(t *testing.T, more ...string) string {
	t.Helper()
	id := e.must(t, e.args("create", more)...)
	t.Cleanup(func() { e.remove(t, id) })
	return id
}

func (e docker) remove(t *testing.T, id string) {
	t.Helper()
	if a := e.try(t, "rm", "--force", "--volumes", id); a.code != 0 && !strings.Contains(a.errs, "No such container") {
		t.Errorf("docker rm: %s", a)
	}
}

func (e docker) inspect(t *testing.T, id, field string) string {
	t.Helper()
	return e.must(t, "inspect", "--format", "{{"+field+"}}", id)
}

// ended waits, and gives Docker's OOMKilled and exit code.
func (e docker) ended(t *testing.T, id string) string {
	t.Helper()
	await(t, "the container has ended", func() bool { return e.inspect(t, id, ".State.Status") == "exited" })
	return e.inspect(t, id, ".State.OOMKilled") + " " + e.inspect(t, id, ".State.ExitCode")
}

// group is the cgroup of a running container.
func (e docker) group(t *testing.T, id string) string {
	t.Helper()
	var pid int
	_, err := fmt.Sscan(e.inspect(t, id, ".State.Pid"), &pid)
	check(t, err)
	return groupOf(t, pid)
}

func (e docker) file(t *testing.T, id, name string) string {
	t.Helper()
	return strings.TrimSpace(readText(t, filepath.Join(e.group(t, id), name)))
}

// wantRefused wants Docker's user to read our code and words.
func (a answer) wantRefused(t *testing.T, code string, phrases ...string) {
	t.Helper()
	text := a.out + a.errs // docker exec prints the runtime's words on its standard output
	if a.code == 0 || !strings.Contains(text, "["+code+"]") {
		t.Errorf("got %s, want a refusal with the code %s", a, code)
	}
	for _, phrase := range phrases {
		if !strings.Contains(text, phrase) {
			t.Errorf("got %q, want it to hold %q", text, phrase)
		}
	}
}

func (a answer) wantOK(t *testing.T) answer {
	t.Helper()
	if a.code != 0 {
		t.Errorf("got %s, want success", a)
	}
	return a
}

// await is harness.Eventually for what takes a daemon and its client in an
// emulated machine: some seconds each time.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited 40 seconds: %s", what)
}

// sweep is what an administrator does, and gives what the registry holds then.
// It is not a harness.Runtime, which would watch for daemons that come and go.
func sweep(t *testing.T) []string {
	t.Helper()
	_ = ask(t, exec.Command(harness.Sage(t), "--root", t.TempDir(), "--config", harness.HostFile(t, enginesHost), "check", "--repair"))
	left, err := filepath.Glob(quotaDir + "/.sage/*/*")
	check(t, err)
	return left
}

// nothingHeld wants all projects given back.
func nothingHeld(t *testing.T) {
	t.Helper()
	var left []string
	for range 30 { // containerd removes a snapshot when it comes to it
		if left = sweep(t); len(left) == 0 {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Errorf("left in the registry: %v", left)
	for _, name := range left {
		entry, _ := os.Readlink(name) // the registry's entries are links to nowhere
		t.Logf("%s: %s", name, entry)
		var owner struct{ Root, ID string }
		if json.Unmarshal([]byte(entry), &owner) == nil && owner.ID != "" {
			show := `date; ls -la --full-time "$1"; cut -c1-300 "$1/pending.json"; ps -eo pid,ppid,stat,lstart,args | grep -v '\[' | cut -c1-250`
			out, _ := exec.Command("sh", "-c", show, "-", filepath.Join(owner.Root, owner.ID)).CombinedOutput()
			t.Logf("%s", out)
		}
	}
}

// step is a test of one thing on a daemon that is there for many.
type step struct {
	name string
	try  func(*testing.T, docker)
}

// steps runs each and gives a table of how long it took.
func steps(t *testing.T, e docker, all []step) {
	t.Helper()
	var table strings.Builder
	for _, s := range all {
		since := time.Now()
		passed := t.Run(s.name, func(t *testing.T) { s.try(t, e) })
		fmt.Fprintf(&table, "%6.1f s  passed %-5v  %s, %s\n", time.Since(since).Seconds(), passed, e.runtime, s.name)
	}
	t.Logf("what took how long\n%s", table.String())
}

// TestEngineDocker: real Docker with its images in containerd's snapshotter, on
// a host with hard limits; both ways in which Docker can start sage.
//
// Proves: S-131, S-132, S-133, S-141, S-143, E-041, C-08, C-15, attack 12, attack 15, attack 16.
func TestEngineDocker(t *testing.T) {
	d := startEngines(t, false)
	steps(t, docker{d, "sage"}, []step{
		{"memory", engineMemory},
		{"processes", engineProcesses},
		{"disk", engineDisk},
		{"copy, diff, commit", engineCopy},
		{"restart", engineRestart},
		{"remove", engineRemove},
		{"volumes", engineVolumes},
		{"engine's files", engineFiles},
		{"image", engineImage},
		{"refusals", engineRefusals},
		{"update", engineUpdate},
		{"processor", engineProcessor},
		{"options", engineOptions},
	})
	steps(t, docker{d, "sage-shim"}, []step{
		{"memory", engineMemory},
		{"killed create", engineKilled},
	})
}

// TestEngineOverlay2: the storage that Docker had before, with other directories.
//
// Proves: S-141, S-143, attack 12.
func TestEngineOverlay2(t *testing.T) {
	e := docker{startEngines(t, true), "sage"}
	steps(t, e, []step{
		{"copy, diff, commit", engineCopy},
	})
}

func startEngines(t *testing.T, overlay2 bool) *harness.Docker {
	t.Helper()
	check(t, os.MkdirAll(enginesAudit, 0o700))
	since := time.Now()
	d := harness.StartDocker(t, harness.DockerOptions{
		Dir: enginesDir, Overlay2: overlay2, HostFile: harness.HostFile(t, enginesHost),
	})
	t.Logf("%6.1f s  the daemons", time.Since(since).Seconds())
	return d
}
