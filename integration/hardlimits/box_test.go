//go:build vm

package hardlimits

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// hard is a host that requires hard limits, as every host does by default.
const hard = "version: 1\nlinux_quota_mount: " + quotaDir + "\nquota: {project_ids: 100000-199999}\n"

// driver is who makes the cgroups.
type driver struct{ systemd bool }

var (
	cgroupfs = driver{}
	systemd  = driver{systemd: true}
)

// path is a cgroupsPath of the container's own.
func (d driver) path(id string) string {
	if d.systemd {
		return "sagetest.slice:sage:" + id
	}
	return "/" + id
}

// runtime is the one under test, on a host that requires hard limits.
func (d driver) runtime(t *testing.T, hostText string) *harness.Runtime {
	t.Helper()
	return harness.NewRuntimeWith(t, hostText)
}

// limits is an edit that asks for less than the profile gives.
func limits(memoryMiB, cpuPercent, processes int64) func(*specs.Spec) {
	return func(s *specs.Spec) {
		s.Linux.Resources = &specs.LinuxResources{
			Memory: &specs.LinuxMemory{Limit: new(memoryMiB << 20)},
			CPU:    &specs.LinuxCPU{Quota: new(cpuPercent * 1000), Period: new(uint64(100_000))},
			Pids:   &specs.LinuxPids{Limit: &processes},
		}
	}
}

// box is a container under hard limits.
type box struct {
	t   *testing.T
	r   *harness.Runtime
	id  string
	dir string // its cgroup
	pid int
}

// bundle has a shell script as its program.
func (d driver) bundle(t *testing.T, id, script string, edits ...func(*specs.Spec)) *harness.Bundle {
	t.Helper()
	return harness.NewBundle(t, func(s *specs.Spec) {
		s.Process.Args = []string{"sh", "-c", script}
		s.Linux.CgroupsPath = d.path(id)
		for _, edit := range edits {
			edit(s)
		}
	})
}

// start runs script in a container that stays.
func (d driver) start(t *testing.T, r *harness.Runtime, script string, edits ...func(*specs.Spec)) *box {
	t.Helper()
	id := harness.NewID()
	r.Must(t, "run", "--detach", "--bundle", d.bundle(t, id, script, edits...).Dir, id)
	return find(t, r, id)
}

// create leaves the container waiting.
func (d driver) create(t *testing.T, r *harness.Runtime, edits ...func(*specs.Spec)) *box {
	t.Helper()
	id := harness.NewID()
	r.Must(t, "create", "--bundle", d.bundle(t, id, "sleep 1000", edits...).Dir, id)
	return find(t, r, id)
}

func find(t *testing.T, r *harness.Runtime, id string) *box {
	t.Helper()
	var state specs.State
	check(t, json.Unmarshal([]byte(r.Must(t, "state", id).Stdout), &state))
	return &box{t, r, id, groupOf(t, state.Pid), state.Pid}
}

// groupOf is the directory of the cgroup that a process is in.
func groupOf(t *testing.T, pid int) string {
	t.Helper()
	path, ok := strings.CutPrefix(readText(t, "/proc/"+strconv.Itoa(pid)+"/cgroup"), "0::")
	if !ok {
		t.Fatalf("process %d is in no cgroup of v2", pid)
	}
	return filepath.Join(cgroups, strings.TrimSpace(path))
}

// file is the text of one of the cgroup's files.
func (b *box) file(name string) string {
	b.t.Helper()
	return strings.TrimSpace(readText(b.t, filepath.Join(b.dir, name)))
}

// write is what a competing writer does.
func (b *box) write(name, value string) {
	b.t.Helper()
	check(b.t, os.WriteFile(filepath.Join(b.dir, name), []byte(value), 0))
}

// counter is one line of a file of "name number" lines.
func (b *box) counter(file, name string) int64 {
	b.t.Helper()
	for line := range strings.Lines(b.file(file) + "\n") {
		var n int64
		if _, err := fmt.Sscanf(line, name+" %d", &n); err == nil {
			return n
		}
	}
	b.t.Fatalf("%s has no line %q", file, name)
	return 0
}

func (b *box) number(name string) int64 {
	b.t.Helper()
	n, err := strconv.ParseInt(b.file(name), 10, 64)
	check(b.t, err)
	return n
}

// exec runs a script in the container.
func (b *box) exec(script string) harness.Result {
	b.t.Helper()
	return b.r.Run(b.t, "exec", b.id, "sh", "-c", script)
}

// attestation is what attest prints, as far as it matters here.
type attestation struct {
	OK    bool
	Lines []struct {
		Field, Want, Got string
		OK               bool
	}
}

func (b *box) attest() attestation {
	b.t.Helper()
	var a attestation
	res := b.r.Run(b.t, "attest", b.id)
	if err := json.Unmarshal([]byte(res.Stdout), &a); err != nil {
		b.t.Fatalf("attest: %v in %s", err, res)
	}
	return a
}

// line is the one of a field; a missing one is a failure.
func (a attestation) line(t *testing.T, field string) (got string, ok bool) {
	t.Helper()
	for _, l := range a.Lines {
		if l.Field == field {
			return l.Got, l.OK
		}
	}
	t.Errorf("attest has no line for %s", field)
	return "", false
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	return string(data)
}

// said is the standard error as a person reads it.
func said(res harness.Result) string { return strings.ReplaceAll(res.Stderr, `\"`, `"`) }

// refused wants a refusal with a code and all of the phrases.
func refused(t *testing.T, res harness.Result, code string, phrases ...string) {
	t.Helper()
	if res.Code == 0 || !strings.Contains(res.Stderr, "["+code+"]") {
		t.Errorf("got %s, want a refusal with the code %s", res, code)
	}
	for _, phrase := range phrases {
		if !strings.Contains(said(res), phrase) {
			t.Errorf("got %q, want it to hold %q", said(res), phrase)
		}
	}
	for _, word := range []string{"panic:", "goroutine "} {
		if strings.Contains(res.Stdout+res.Stderr, word) {
			t.Errorf("got %s, want no %q", res, word)
		}
	}
}

// nothingIn wants the state root empty: what was refused leaves nothing.
func nothingIn(t *testing.T, r *harness.Runtime) {
	t.Helper()
	entries, err := os.ReadDir(r.Root)
	check(t, err)
	for _, e := range entries {
		t.Errorf("left in the state root: %s", e.Name())
	}
}
