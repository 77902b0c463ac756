//go:build vm

package hardlimits

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// A host as setup leaves it, with no path but the image's and the mount's given:
// the guest has neither a configuration nor a cgroup root.
const (
	setupImage  = plainDir + "/quota images/quota.img"
	setupMount  = "/srv/sage-setup"
	setupCgroup = cgroups + "/sage"
	setupRecord = "/var/lib/sage-setup.json"
	hostFile    = "/etc/sage/config.yaml"
	plainDir    = "/srv/plain-xfs"
	auditDir    = "/var/log/sage"
)

func setupHost(t *testing.T) *harness.Runtime {
	t.Helper()
	r := &harness.Runtime{Bin: harness.Sage(t), Root: filepath.Join(harness.TempDir(t), "root")}
	check(t, os.Mkdir(r.Root, 0o700))
	for _, path := range []string{hostFile, setupRecord, setupImage, setupMount, setupCgroup} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s is there (%v), want a host that was not prepared", path, err)
		}
	}
	t.Cleanup(func() {
		if res := r.Run(t, "setup", "--undo"); res.Code != 0 {
			t.Errorf("setup --undo at the end: %s", res)
		}
	})
	return r
}

func prepare(t *testing.T, r *harness.Runtime, more ...string) string {
	t.Helper()
	args := []string{"setup", "--quota-image", setupImage, "--size", "400M", "--mount", setupMount}
	return r.Must(t, append(args, more...)...).Stdout
}

// hostTraces are what setup can change on a host.
func hostTraces(t *testing.T) map[string]string {
	t.Helper()
	traces := map[string]string{}
	for _, path := range []string{"/etc/fstab", hostFile, setupRecord, "/proc/self/mountinfo", cgroups + "/cgroup.subtree_control"} {
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		traces[path] = string(data)
	}
	for _, path := range []string{filepath.Dir(hostFile), filepath.Dir(setupImage), setupMount, setupCgroup, auditDir} {
		if _, err := os.Lstat(path); err == nil {
			traces[path] = "there"
		}
	}
	loops, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	check(t, err)
	traces["loops"] = strings.Join(loops, " ")
	return traces
}

func sameHost(t *testing.T, before map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, hostTraces(t)); diff != "" {
		t.Errorf("host (-before +after):\n%s", diff)
	}
}

// setupRefused runs setup, which has to fail in this way and leave no trace.
func setupRefused(t *testing.T, r *harness.Runtime, want string, args ...string) {
	t.Helper()
	before := hostTraces(t)
	res := r.Run(t, append([]string{"setup"}, args...)...)
	if res.Code != 1 || !strings.Contains(res.Stderr, want) {
		t.Errorf("setup %v: %s, want a refusal with %q", args, res, want)
	}
	sameHost(t, before)
}

// outcomes are the second column of what setup prints.
func outcomes(out string) (did []string) {
	for line := range strings.Lines(out) {
		for _, word := range []string{"made", "already", "to do", "kept", "undone", "would make", "would undo"} {
			if len(line) > 12 && strings.HasPrefix(line[12:], word+" ") && !slices.Contains(did, word) {
				did = append(did, word)
			}
		}
	}
	return did
}

// TestSetup: from nothing to a host whose check is content, where a container
// is held to its disk limit; and back to nothing, but not under a container.
//
// Proves: S-146, S-147, S-155.
func TestSetup(t *testing.T) {
	r := setupHost(t)
	before := hostTraces(t)
	if got := outcomes(prepare(t, r, "--persist", "--dry-run")); !cmp.Equal(got, []string{"would make", "already"}) {
		t.Errorf("a dry run said %q", got)
	}
	sameHost(t, before)

	t.Logf("setup:\n%s", prepare(t, r, "--persist"))
	after := hostTraces(t)
	if got := outcomes(prepare(t, r, "--persist")); !cmp.Equal(got, []string{"already"}) {
		t.Errorf("the second setup said %q", got)
	}
	if got := outcomes(r.Must(t, "setup").Stdout); !cmp.Equal(got, []string{"already"}) {
		t.Errorf("a setup of what the configuration names said %q", got)
	}
	sameHost(t, after)
	var report struct {
		OK       bool
		Findings []struct {
			Name, Seen string
			OK         bool
			Level      string `json:"needed_for"`
		}
	}
	check(t, json.Unmarshal([]byte(r.Must(t, "check", "--json").Stdout), &report))
	for _, f := range report.Findings {
		if f.Level == "hard limits" && !f.OK {
			t.Errorf("check: %+v", f)
		}
	}
	if !report.OK {
		t.Error("check is not content with what setup wrote")
	}
	spaceStays(t)

	id := harness.NewID()
	bundle := cgroupfs.bundle(t, id, "sleep 1000", func(s *specs.Spec) { s.Linux.CgroupsPath = "/sage/" + id })
	r.Must(t, "run", "--detach", "--bundle", bundle.Dir, id)
	if group := groupOf(t, find(t, r, id).pid); filepath.Dir(group) != setupCgroup {
		t.Errorf("the container is in %s, want it below %s", group, setupCgroup)
	}
	setupRefused(t, r, "delete the containers", "--undo")
	r.Must(t, "delete", "--force", id)

	file := filepath.Join(setupMount, "precious")
	check(t, os.WriteFile(file, []byte("x"), 0o600))
	setupRefused(t, r, "goes with all that it holds", "--undo")
	check(t, os.Remove(file))

	check(t, os.RemoveAll(auditDir)) // the container's audit file would keep it
	check(t, os.Mkdir(auditDir, 0o750))
	t.Logf("undo:\n%s", r.Must(t, "setup", "--undo").Stdout)
	sameHost(t, before)
}

// spaceStays: neither trimming nor a boot takes from the image what was given
// to it. The mount is made anew by mount(8) from the line in fstab.
func spaceStays(t *testing.T) {
	t.Helper()
	check(t, unix.Unmount(setupMount, 0))
	for _, args := range [][]string{{"mount", setupMount}, {"fstrim", "--fstab", "--verbose"}} {
		if out, err := harness.Output(exec.Command(args[0], args[1:]...)); err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	var st unix.Stat_t
	check(t, unix.Stat(setupImage, &st))
	if st.Blocks*512 < st.Size {
		t.Errorf("the image has %d bytes of its %d", st.Blocks*512, st.Size)
	}
	out, err := harness.Output(exec.Command("findmnt", "-n", "-o", "OPTIONS", setupMount))
	if options := strings.Split(strings.TrimSpace(out), ","); err != nil || !slices.Contains(options, "prjquota") ||
		!slices.Contains(options, "nosuid") || !slices.Contains(options, "nodev") {
		t.Errorf("mounted by fstab with %s, %v", out, err)
	}
}

// TestSetupInUse: users of the mount that umount(2) does not see.
func TestSetupInUse(t *testing.T) {
	r := setupHost(t)
	before := hostTraces(t)
	prepare(t, r)
	keep := exec.Command("unshare", "--mount", "sleep", "1000")
	check(t, harness.StartCommand(keep))
	done := func() {
		_ = keep.Process.Kill()
		_ = harness.WaitCommand(keep)
	}
	defer done()
	harness.Eventually(t, "the mount is in another namespace", func() bool {
		ours, _ := os.Readlink("/proc/self/ns/mnt")
		theirs, err := os.Readlink("/proc/" + strconv.Itoa(keep.Process.Pid) + "/ns/mnt")
		return err == nil && ours != theirs
	})
	mounted := func() bool {
		var st unix.Statfs_t
		return unix.Statfs(setupMount, &st) == nil && st.Type == unix.XFS_SUPER_MAGIC && st.Flags&unix.ST_NODEV != 0
	}
	res := r.Run(t, "setup", "--undo")
	if res.Code != 1 || !strings.Contains(res.Stderr, "another mount namespace") || !mounted() {
		t.Errorf("undo: %s, mounted %t; want a refusal, and the mount there", res, mounted())
	}
	done()
	f, err := os.Create(filepath.Join(setupMount, "open"))
	check(t, err)
	check(t, os.Remove(f.Name()))
	setupRefused(t, r, "in use", "--undo")
	check(t, f.Close())
	r.Must(t, "setup", "--undo")
	sameHost(t, before)
}

// TestSetupConfig: a configuration that there is stays as it is.
func TestSetupConfig(t *testing.T) {
	r := setupHost(t)
	check(t, os.MkdirAll(filepath.Dir(hostFile), 0o755))
	defer os.RemoveAll(filepath.Dir(hostFile))
	const text = "version: 1\nlinux_quota_mount: /srv/other\n"
	check(t, os.WriteFile(hostFile, []byte(text), 0o644))
	before := hostTraces(t)
	res := r.Run(t, "setup", "--quota-image", setupImage, "--size", "400M", "--mount", setupMount)
	for _, want := range []string{"linux_quota_mount: " + setupMount, "linux_cgroup_root: " + setupCgroup, "audit_dir: " + auditDir, "quota: {project_ids: "} {
		if !strings.Contains(res.Stdout, want) {
			t.Errorf("setup: %s, want it to say %q", res, want)
		}
	}
	if res.Code != 1 {
		t.Errorf("setup: %s, want status 1: the host is not ready", res)
	}
	r.Must(t, "setup", "--undo")
	sameHost(t, before)
	check(t, os.WriteFile(hostFile, []byte("version: 2\n"), 0o644))
	setupRefused(t, r, "sandbox.config_invalid", "--quota-image", setupImage)
}

// TestSetupMount: a mount that there is must be one that holds limits.
//
// Proves: S-139.
func TestSetupMount(t *testing.T) {
	r := setupHost(t)
	before := hostTraces(t)
	setupRefused(t, r, "prjquota", "--quota-mount", plainDir)
	setupRefused(t, r, "no mount there", "--quota-mount", "/srv")
	check(t, unix.Mount("", quotaDir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID, ""))
	setupRefused(t, r, "nodev", "--quota-mount", quotaDir)
	check(t, unix.Mount("", quotaDir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV, ""))
	r.Must(t, "setup", "--quota-mount", quotaDir)
	r.Must(t, "check")
	r.Must(t, "setup", "--undo")
	sameHost(t, before)
}

// TestSetupControllers: where processes are in the way, it says so.
func TestSetupControllers(t *testing.T) {
	r := setupHost(t)
	dir := cgroups + "/" + harness.Mark() + "-full"
	check(t, os.Mkdir(dir, 0o755))
	inside := exec.Command("sleep", "1000")
	check(t, harness.StartCommand(inside))
	defer func() {
		_ = inside.Process.Kill()
		_ = harness.WaitCommand(inside)
		harness.Eventually(t, "the cgroup is gone", func() bool { return os.Remove(dir) == nil })
	}()
	check(t, os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(inside.Process.Pid)), 0))
	setupRefused(t, r, "saw processes in this cgroup", "--quota-mount", quotaDir, "--cgroup-root", dir+"/sage")
}

// TestSystemdSetup: systemd owns the cgroups above the root of sage's. It
// leaves that alone, and its controllers on, when it is told to look again.
func TestSystemdSetup(t *testing.T) {
	r := setupHost(t)
	r.Must(t, "setup", "--quota-mount", quotaDir)
	want := readText(t, setupCgroup+"/cgroup.subtree_control")
	// Without default dependencies: sysinit.target would be started for them, and
	// with it the host's own services, of which one empties /tmp.
	for _, args := range [][]string{
		{"systemctl", "daemon-reload"},
		{"systemd-run", "--wait", "--property=DefaultDependencies=no", "--property=MemoryMax=100M", "true"},
		{"systemctl", "daemon-reexec"},
		{"systemd-run", "--wait", "--property=DefaultDependencies=no", "--property=TasksMax=10", "--property=CPUQuota=10%", "true"},
	} {
		if out, err := harness.Output(exec.Command(args[0], args[1:]...)); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		if got := readText(t, setupCgroup+"/cgroup.subtree_control"); got != want || !strings.Contains(got, "memory") {
			t.Errorf("after %v the controllers are %q, want %q", args, got, want)
		}
	}
	r.Must(t, "check")
}
