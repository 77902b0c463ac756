//go:build vm

package hardlimits

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

const unsupported = "sandbox.resource_limits_unsupported"

// TestAdmission: only what is missing is named, with what to do, and nothing
// has been done.
//
// Proves: S-010, S-130, S-144, G-18.
func TestAdmission(t *testing.T) {
	closed := group(t, "", nil)       // enables nothing for what is in it
	inClosed := group(t, closed, nil) // so this one has no controllers
	some := group(t, "", nil)         // enables one
	check(t, os.WriteFile(filepath.Join(cgroups, some, "cgroup.subtree_control"), []byte("+pids"), 0))
	inSome := group(t, some, nil)
	const soft = "profiles: {sage: {defaults: {resources: {require_hard_limits: false}}}}\n"
	for _, c := range []struct {
		name, host, above string
		missing           string // "" for none
		says              []string
	}{
		{"prepared", hard, "", "", nil},
		{"no quota mount", "version: 1\n", "", "disk", []string{"linux_quota_mount is not set", "require_hard_limits"}},
		{"a quota mount without quotas", "version: 1\nlinux_quota_mount: /srv/plain-xfs\n", "", "disk", []string{"/srv/plain-xfs: mounted without quotas"}},
		{"a quota mount that is not XFS", "version: 1\nlinux_quota_mount: /proc\n", "", "disk", []string{"want XFS"}},
		{"a quota mount that is missing", "version: 1\nlinux_quota_mount: /nowhere\n", "", "disk", []string{"/nowhere"}},
		{"no controllers", hard, inClosed, "cpu, memory, process_count", []string{"/" + inClosed + " has the controllers []", "delegate"}},
		{"one controller", hard, inSome, "cpu, memory", []string{"without cpu", "without memory"}},
		{"neither", "version: 1\n", inClosed, "cpu, memory, disk, process_count", nil},
		{"soft, nothing prepared", "version: 1\n" + soft, "", "", nil},
		{"soft, quotas without controllers", hard + soft, inClosed, "cpu, memory, process_count", []string{"nothing is metered"}},
		{"soft, a cgroup root without quotas", "version: 1\nlinux_cgroup_root: /sys/fs/cgroup/sage\n" + soft, "", "disk", []string{"nothing is metered"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := cgroupfs.runtime(t, c.host)
			id := harness.NewID()
			res := r.Run(t, "run", "--bundle", cgroupfs.bundle(t, id, "true", at(filepath.Join("/", c.above, id))).Dir, id)
			if c.missing == "" {
				if res.Code != 0 {
					t.Errorf("got %s, want it run", res)
				}
				return
			}
			refused(t, res, unsupported, append(c.says, "missing_limits: "+c.missing+";", "side_effect_state: not_applied")...)
			nothingIn(t, r)
		})
	}
}

// TestAdmissionEnabled: a cgroup that could enable a controller but does not may
// be the container's parent, as long as nobody is in it.
//
// Proves: S-130.
func TestAdmissionEnabled(t *testing.T) {
	r := cgroupfs.runtime(t, hard)
	free := group(t, "", nil)
	id := harness.NewID()
	res := r.Run(t, "run", "--bundle", cgroupfs.bundle(t, id, "true", at("/"+free+"/"+id)).Dir, id)
	if res.Code != 0 {
		t.Errorf("got %s, want it run", res)
	}
	held := group(t, "", nil)
	occupy(t, held)
	id = harness.NewID()
	res = r.Run(t, "run", "--bundle", cgroupfs.bundle(t, id, "true", at("/"+held+"/"+id)).Dir, id)
	refused(t, res, unsupported, "missing_limits: cpu, memory, process_count;", "while there are processes in it")
}

// TestForeignCgroup: the container's cgroup is new, and nobody else's.
//
// Proves: S-008, S-130.
func TestForeignCgroup(t *testing.T) {
	r := cgroupfs.runtime(t, hard)
	occupied, empty := group(t, "", nil), group(t, "", nil)
	occupy(t, occupied)
	for name, path := range map[string]string{
		"of others": "/" + occupied, "empty": "/" + empty, "the root": "/", "by a way up": "/" + empty + "/../" + occupied,
	} {
		id := harness.NewID()
		res := r.Run(t, "run", "--bundle", cgroupfs.bundle(t, id, "true", at(path)).Dir, id)
		if res.Code == 0 || !strings.Contains(said(res), "linux.cgroupsPath") {
			t.Errorf("%s: got %s, want linux.cgroupsPath refused", name, res)
		}
		nothingIn(t, r)
	}
}

// TestPause: a pod's pause container is not refused for want of a disk quota, and
// has no disk to write on; every bundle can say that it is one.
//
// Proves: S-010.
func TestPause(t *testing.T) {
	r := cgroupfs.runtime(t, "version: 1\n")
	id := harness.NewID()
	b := cgroupfs.bundle(t, id, "! touch /x 2>/dev/null", func(s *specs.Spec) {
		s.Annotations = map[string]string{"io.kubernetes.cri.container-type": "sandbox", "sage.sandbox.profile": "agent"}
		s.Root.Readonly = false
	})
	if res := r.Run(t, "run", "--bundle", b.Dir, id); res.Code != 0 {
		t.Errorf("got %s, want it run", res)
	}
}

// TestCheckVerb: what check and policy say is what create does.
//
// Proves: S-010.
func TestCheckVerb(t *testing.T) {
	prepared := &harness.Runtime{Bin: harness.Sage(t), Root: harness.TempDir(t), Config: harness.HostFile(t, hard)}
	if res := prepared.Run(t, "check"); res.Code != 0 {
		t.Errorf("got %s, want the default profile to work", res)
	}
	bare := &harness.Runtime{Bin: prepared.Bin, Root: prepared.Root, Config: harness.HostFile(t, "version: 1\n")}
	for _, verb := range [][]string{{"check"}, {"policy", "--profile", "sage"}} {
		res := bare.Run(t, verb...)
		if res.Code != 1 || !strings.Contains(res.Stdout, "missing_limits: disk;") {
			t.Errorf("%s: got %s, want it to say that the disk limit is missing", verb[0], res)
		}
	}
}

// occupy puts a process into a cgroup.
func occupy(t *testing.T, path string) {
	t.Helper()
	cmd := sleeper()
	check(t, harness.StartCommand(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = harness.WaitCommand(cmd)
	})
	join(t, filepath.Join(cgroups, path), cmd.Process.Pid)
}
