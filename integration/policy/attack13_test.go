//go:build kernel

package policy

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestAttack13: a guard or a limit on a cgroup holds for everybody in it, so a
// bundle may not name one that is somebody else's.
//
// Proves: S-008.
func TestAttack13(t *testing.T) {
	slice := hostSlice(t)
	path := func(p string) func(*testing.T, *specs.Spec) {
		return func(_ *testing.T, s *specs.Spec) { s.Linux.CgroupsPath = p }
	}
	failAll(t, []trick{
		{"root", path("/"), []string{"linux.cgroupsPath"}},
		{"root, written oddly", path("/./"), []string{"linux.cgroupsPath"}},
		{"root by a way up", path("/" + harness.Mark() + "/.."), []string{"linux.cgroupsPath"}},
		{"above", path("../.."), []string{"linux.cgroupsPath"}},
		{"slice of the host", path("/" + slice), []string{"linux.cgroupsPath", "exists"}},
		{"slice of the host by a way up", path("/" + slice + "/new/.."), []string{"linux.cgroupsPath"}},
		{"relative", path(slice), []string{"linux.cgroupsPath"}},
		{"below a service of the host", path("/" + slice + "/new"), []string{"linux.cgroupsPath", "below one"}},
	}, harness.SoftSage, harness.SoftAgent)
	t.Run("of another container", cgroupOfAnother)
}

// hostSlice makes a cgroup with a process in it, in every hierarchy, as a
// service of the host has one.
func hostSlice(t *testing.T) string {
	t.Helper()
	name := harness.Mark() + "-service"
	cmd := exec.Command("sleep", "1000")
	check(t, harness.StartCommand(cmd))
	dirs, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	check(t, err)
	if len(dirs) == 0 {
		dirs = []string{"/sys/fs/cgroup/cgroup.procs"}
	}
	for _, procs := range dirs {
		dir := filepath.Join(filepath.Dir(procs), name)
		check(t, os.Mkdir(dir, 0o755))
		// cpuset takes nobody before it has processors, which changes nothing here.
		_ = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = harness.WaitCommand(cmd)
		for _, procs := range dirs {
			removeCgroup(t, filepath.Join(filepath.Dir(procs), name))
		}
	})
	return name
}

func removeCgroup(t *testing.T, dir string) {
	t.Helper()
	harness.Eventually(t, "the cgroup can be removed", func() bool {
		err := os.Remove(dir)
		return err == nil || errors.Is(err, fs.ErrNotExist)
	})
}

func cgroupOfAnother(t *testing.T) {
	r := harness.NewRuntimeWith(t, harness.SoftAgent)
	path := "/" + harness.NewID()
	start := func() harness.Result {
		b := harness.NewBundle(t, func(s *specs.Spec) {
			s.Process.Args, s.Linux.CgroupsPath = []string{"sleep", "1000"}, path
		})
		return r.Run(t, "run", "--detach", "--bundle", b.Dir, harness.NewID())
	}
	ran(t, start())
	res := start()
	if res.Code == 0 {
		t.Errorf("got %s, want a refusal: the cgroup is another container's", res)
	}
	t.Log(said(res))
}
