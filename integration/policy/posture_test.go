//go:build kernel

package policy

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// attested is what "attest" prints, as far as the tests read it.
type attested struct {
	OK    bool `json:"ok"`
	Lines []struct {
		PID   int    `json:"pid"`
		Field string `json:"field"`
		Want  string `json:"want"`
		Got   string `json:"got"`
		OK    bool   `json:"ok"`
	} `json:"lines"`
}

// TestPosture: attest is content with a container as it is, before its start,
// for its init and for a process that joined, and is not once anything that it
// speaks of has been changed from outside.
//
// Proves: S-013, S-105.
func TestPosture(t *testing.T) {
	for _, p := range profiles {
		t.Run(string(p.name), func(t *testing.T) {
			r := harness.NewRuntimeWith(t, p.host)
			id := harness.NewID()
			r.Must(t, "create", "--bundle", harness.NewBundle(t, harness.Args("sleep", "1000")).Dir, id)
			wantAttested(t, r, id, "")
			r.Must(t, "start", id)
			wantAttested(t, r, id, "")
			r.Must(t, "exec", "--detach", id, "sleep", "2000")
			wantAttested(t, r, id, "")
			for _, pid := range pidsOf(t, r, id) {
				raiseFromOutside(t, r, id, pid)
			}
			loosenCgroup(t, r, id)
			addStranger(t, r, id)
			wantAttested(t, r, id, "")
		})
	}
}

// wantAttested wants the field to be the one that is wrong, or none.
func wantAttested(t *testing.T, r *harness.Runtime, id, field string) {
	t.Helper()
	res := r.Run(t, "attest", id)
	var a attested
	if err := json.Unmarshal([]byte(res.Stdout), &a); err != nil {
		t.Fatalf("%v: %s", err, res)
	}
	var wrong []string
	for _, l := range a.Lines {
		if !l.OK {
			wrong = append(wrong, l.Field)
		}
	}
	switch {
	case len(a.Lines) < 10:
		t.Errorf("got %d lines, want one for each field of each process", len(a.Lines))
	case a.OK != (field == "") || (res.Code == 0) != a.OK || res.Code > 1:
		t.Errorf("got exit status %d, ok %t and %v, want %q to be wrong", res.Code, a.OK, wrong, field)
	case field != "" && !slices.Contains(wrong, field), field == "" && len(wrong) > 0:
		t.Errorf("got %v, want %q to be wrong", wrong, field)
	}
}

// pidsOf are the container's processes, as the host numbers them.
func pidsOf(t *testing.T, r *harness.Runtime, id string) []int {
	t.Helper()
	var pids []int
	check(t, json.Unmarshal([]byte(r.Must(t, "ps", "--format", "json", id).Stdout), &pids))
	if len(pids) != 2 {
		t.Fatalf("got processes %v, want init and an exec", pids)
	}
	return pids
}

// raiseFromOutside raises a limit of one process, as the host's root can, where
// root has the capability.
func raiseFromOutside(t *testing.T, r *harness.Runtime, id string, pid int) {
	t.Helper()
	var old unix.Rlimit
	check(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old))
	err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: old.Cur + 1, Max: old.Max + 1}, nil)
	if errors.Is(err, unix.EPERM) {
		t.Log("root on this machine has no CAP_SYS_RESOURCE: the limit stays")
		return
	}
	check(t, err)
	wantAttested(t, r, id, "rlimits.RLIMIT_NOFILE")
	check(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil))
}

// looser are files of a cgroup, with what lifts the limit in them.
var looser = []struct{ controller, v1, v2, value, field string }{
	{"pids", "pids.max", "pids.max", "max", "resources.pids"},
	{"cpu", "cpu.cfs_quota_us", "cpu.max", "-1", "resources.cpu_quota"},
}

func loosenCgroup(t *testing.T, r *harness.Runtime, id string) {
	t.Helper()
	pid := pidOf(t, r, id)
	for _, l := range looser {
		file, value := filepath.Join("/sys/fs/cgroup", l.controller, cgroupOf(t, pid, l.controller), l.v1), l.value
		if _, err := os.Stat(file); err != nil {
			file, value = filepath.Join("/sys/fs/cgroup", cgroupOf(t, pid, ""), l.v2), "max"
		}
		old := readText(t, file)
		check(t, os.WriteFile(file, []byte(value), 0))
		wantAttested(t, r, id, l.field)
		check(t, os.WriteFile(file, []byte(old), 0))
	}
}

// addStranger puts a process of the host into the container's cgroups, where it
// is one of its processes and under no filter.
func addStranger(t *testing.T, r *harness.Runtime, id string) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	check(t, harness.StartCommand(cmd))
	end := func() {
		_ = cmd.Process.Kill()
		_ = harness.WaitCommand(cmd)
	}
	t.Cleanup(end)
	pid := pidOf(t, r, id)
	dirs, err := filepath.Glob("/sys/fs/cgroup/*" + cgroupOf(t, pid, "pids"))
	check(t, err)
	for _, dir := range append(dirs, "/sys/fs/cgroup"+cgroupOf(t, pid, "")) {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0)
	}
	wantAttested(t, r, id, "seccomp_filters")
	end()
}
