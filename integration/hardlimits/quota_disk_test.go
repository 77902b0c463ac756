//go:build vm

package hardlimits

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// diskHost is a host on which containers have 8 MiB of disk and may write below /.
const diskHost = hard + `write_paths: [/srv/sage-xfs/workspace, /srv/plain-xfs/workspace]
default_profile: disk
profiles:
  disk:
    extends: sage
    defaults: {resources: {disk_mb: 8}, process: {max_file_mb: 8}, files: {readonly_root: false}}
`

const diskLimit = 8 << 20

// engineRoot is a root file system as an engine mounts it, on the quota mount.
func engineRoot(t *testing.T) (merged, upper string) {
	t.Helper()
	dir, err := os.MkdirTemp(quotaDir, "engine-") //nolint:usetesting // it must lie on the quota mount
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	for _, name := range []string{"upper", "work", "rootfs"} {
		check(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	merged, upper = dir+"/rootfs", dir+"/upper"
	mountRoot(t, dir)
	return merged, upper
}

func mountRoot(t *testing.T, dir string) {
	t.Helper()
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", harness.Busybox(t), dir, dir)
	check(t, unix.Mount("overlay", dir+"/rootfs", "overlay", 0, options))
	t.Cleanup(func() { check(t, unix.Unmount(dir+"/rootfs", 0)) })
}

func onRoot(root string, readonly bool) func(*specs.Spec) {
	return func(s *specs.Spec) { s.Root = &specs.Root{Path: root, Readonly: readonly} }
}

// run is one container from beginning to end.
func run(t *testing.T, r *harness.Runtime, script string, edits ...func(*specs.Spec)) harness.Result {
	t.Helper()
	id := harness.NewID()
	return r.Run(t, "run", "--bundle", cgroupfs.bundle(t, id, script, edits...).Dir, id)
}

// swept is what the registry holds after a sweep, which is nothing once all
// containers and their snapshots are gone.
func swept(t *testing.T, r *harness.Runtime) []string {
	t.Helper()
	_ = r.Run(t, "check", "--repair")
	left, err := filepath.Glob(quotaDir + "/.sage/*/*")
	check(t, err)
	return left
}

func nothingLeft(t *testing.T, r *harness.Runtime) {
	t.Helper()
	var left []string
	harness.Eventually(t, "the quota registry is empty", func() bool {
		left = swept(t, r)
		return len(left) == 0
	})
}

// filling writes as much as goes into each place, says how much, and takes it
// away again.
const filling = `for d in %s; do
	dd if=/dev/zero of=$d/f bs=64k count=1000 2>/dev/null
	echo $d $(stat -c %%s $d/f); rm $d/f
done`

func sizes(t *testing.T, out string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for line := range strings.Lines(out) {
		place, size, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(size)
		if err != nil {
			t.Fatalf("cannot read %q", line)
		}
		found[place] = n
	}
	return found
}

// Proves: S-007, S-141, S-143, C-08, C-15, attack 12. What a container writes
// stops at one limit, wherever it writes: into the engine's overlay, an overlay
// of sage's own, /tmp or /dev/shm.
func TestDiskPlaces(t *testing.T) {
	r := harness.NewRuntimeWith(t, diskHost)
	merged, _ := engineRoot(t)
	plain := harness.PrivateRoot(t)
	for name, test := range map[string]struct {
		root, places string
		readonly     bool
	}{
		"engine's overlay": {merged, ". /tmp /dev/shm", false},
		"plain directory":  {plain, ". /tmp /dev/shm", false},
		"read-only":        {plain, "/tmp /dev/shm", true},
	} {
		t.Run(name, func(t *testing.T) {
			res := run(t, r, "cd /; "+fmt.Sprintf(filling, test.places), onRoot(test.root, test.readonly))
			if res.Code != 0 {
				t.Fatal(res)
			}
			for place, n := range sizes(t, res.Stdout) {
				if n > diskLimit || n < diskLimit-256<<10 {
					t.Errorf("%s: wrote %d bytes, want within 256 KiB of %d", place, n, diskLimit)
				}
			}
		})
	}
	if _, err := os.Lstat(plain + "/f"); err == nil {
		t.Error("the plain directory was written to")
	}
	// Together, not each for itself.
	res := run(t, r, `cd /; for f in a /tmp/a /dev/shm/a; do dd if=/dev/zero of=$f bs=64k count=64 2>/dev/null; done; stat -c %s a /tmp/a /dev/shm/a`, onRoot(plain, false))
	sum := 0
	for line := range strings.Lines(res.Stdout) {
		n, _ := strconv.Atoi(strings.TrimSpace(line))
		sum += n
	}
	if sum > diskLimit || sum < diskLimit-256<<10 {
		t.Errorf("in three places: wrote %d bytes, want within 256 KiB of %d", sum, diskLimit)
	}
}

// Proves: S-141, S-024: the next container of a snapshot finds what the first
// wrote, and the limit that it counts for; also where the first was filled up.
func TestDiskAgain(t *testing.T) {
	r := harness.NewRuntimeWith(t, diskHost)
	merged, upper := engineRoot(t)
	first := run(t, r, "dd if=/dev/zero of=/kept bs=64k count=1000 2>/dev/null; stat -c %s /kept", onRoot(merged, false))
	again := run(t, r, "stat -c %s /kept; echo x > /more; echo $?", onRoot(merged, false))
	if again.Code != 0 || !strings.HasPrefix(again.Stdout, first.Stdout) || strings.TrimSpace(strings.TrimPrefix(again.Stdout, first.Stdout)) == "0" {
		t.Errorf("first %v, then %v, want the same size and no room", first, again)
	}
	if info, err := os.Stat(upper + "/kept"); err != nil || info.Size() == 0 {
		t.Errorf("the engine does not find what was written: %v", err)
	}
	less := run(t, r, "true", onRoot(merged, false), annotate("resources.disk_mb", "4"))
	if less.Code == 0 || !strings.Contains(less.Stderr, "sandbox.limit_exceeded") {
		t.Errorf("with less than it has: %v", less)
	}
	check(t, os.RemoveAll(upper+"/kept"))
}

// project is the id that the only container has.
func project(t *testing.T) string {
	t.Helper()
	ids, err := filepath.Glob(quotaDir + "/.sage/ids/*")
	check(t, err)
	if len(ids) != 1 {
		t.Fatalf("saw projects %v, want one", ids)
	}
	return filepath.Base(ids[0])
}

func xfsQuota(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if _, err := harness.Output(exec.Command("xfs_quota", "-x", "-c", c, quotaDir)); err != nil {
			t.Fatalf("xfs_quota %s: %v", c, err)
		}
	}
}

// Proves: S-131 for the disk: relaxed between create and start, or while it
// runs, the container does not start, and gets no exec.
func TestDiskRelaxed(t *testing.T) {
	r := harness.NewRuntimeWith(t, diskHost)
	nothingLeft(t, r)
	b := cgroupfs.create(t, r, onRoot(harness.PrivateRoot(t), false))
	xfsQuota(t, "limit -p bhard=0 "+project(t))
	if res := r.Run(t, "start", b.id); res.Code == 0 || !strings.Contains(res.Stderr, "sandbox.enforcement_failed") {
		t.Errorf("start: %v", res)
	}
	r.Must(t, "delete", "--force", b.id)
	nothingLeft(t, r)
	b = cgroupfs.start(t, r, "sleep 1000", onRoot(harness.PrivateRoot(t), false))
	r.Must(t, "exec", b.id, "true")
	if res := r.Must(t, "attest", b.id); !strings.Contains(res.Stdout, project(t)) {
		t.Errorf("attest does not show the project: %v", res)
	}
	xfsQuota(t, "limit -p ihard=0 "+project(t))
	if res := r.Run(t, "exec", b.id, "true"); res.Code == 0 || !strings.Contains(res.Stderr, "sandbox.enforcement_failed") {
		t.Errorf("exec: %v", res)
	}
	r.Must(t, "delete", "--force", b.id)
	nothingLeft(t, r)
}

// It shows that a create that is killed at any time leaves what delete --force
// takes back, and no mount.
func TestDiskKilled(t *testing.T) {
	r := harness.NewRuntimeWith(t, diskHost)
	root := harness.PrivateRoot(t)
	before, err := os.ReadFile("/proc/self/mountinfo")
	check(t, err)
	for i := range 24 {
		id := harness.NewID()
		running := r.Start(t, "create", "--bundle", cgroupfs.bundle(t, id, "sleep 100", onRoot(root, false)).Dir, id)
		pause(i)
		running.Kill()
		_ = r.Run(t, "delete", "--force", id)
	}
	nothingLeft(t, r)
	after, err := os.ReadFile("/proc/self/mountinfo")
	check(t, err)
	if string(after) != string(before) {
		t.Errorf("mounts: got\n%s\nwant\n%s", after, before)
	}
}

// Proves: S-139, S-145, G-16: a workspace of an administrator's is within the
// limit, shared by two containers without exceeding it, and refused where its
// project allows more.
func TestDiskWorkspace(t *testing.T) {
	r := harness.NewRuntimeWith(t, diskHost)
	dir := quotaDir + "/workspace"
	check(t, os.MkdirAll(dir+"/sub", 0o777))
	check(t, os.Chmod(dir, 0o777))
	t.Cleanup(func() {
		check(t, os.RemoveAll(dir))
		xfsQuota(t, "limit -p bhard=0 ihard=0 4242")
	})
	xfsQuota(t, "project -s -p "+dir+" 4242", "limit -p bhard=4m ihard=1000 4242")
	bind := func(s *specs.Spec) {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: "/ws", Type: "bind", Source: dir, Options: []string{"rbind", "rw"}})
	}
	root := harness.PrivateRoot(t)
	res := run(t, r, fmt.Sprintf(filling, "/ws /tmp"), onRoot(root, true), bind)
	if res.Code != 0 {
		t.Fatal(res)
	}
	for place, n := range sizes(t, res.Stdout) {
		if n > 4<<20 || n < 4<<20-256<<10 {
			t.Errorf("%s: wrote %d bytes, want half of the limit", place, n)
		}
	}
	other := cgroupfs.start(t, r, "dd if=/dev/zero of=/ws/other bs=64k count=32; sleep 1000", onRoot(root, true), bind)
	harness.Eventually(t, "the other has written", func() bool {
		info, err := os.Stat(dir + "/other")
		return err == nil && info.Size() == 2<<20
	})
	res = run(t, r, fmt.Sprintf(filling, "/ws"), onRoot(root, true), bind)
	if n := sizes(t, res.Stdout)["/ws"]; n > 2<<20 {
		t.Errorf("beside another's 2 MiB: wrote %d bytes", n)
	}
	r.Must(t, "delete", "--force", other.id)
	for _, spoil := range []string{"limit -p bhard=9m 4242", "limit -p bhard=4m ihard=0 4242"} {
		xfsQuota(t, spoil)
		if res := run(t, r, "true", onRoot(root, true), bind); res.Code == 0 || !strings.Contains(res.Stderr, "sandbox.resource_limits_unsupported") {
			t.Errorf("%s: %v", spoil, res)
		}
	}
	xfsQuota(t, "project -C -p "+dir+" 4242")
	if res := run(t, r, "true", onRoot(root, true), bind); res.Code == 0 {
		t.Error("a workspace of no project: taken")
	}
}

// It shows that what cannot be limited is refused with the reason, and the
// sandbox of a pod is not, but writes nothing.
func TestDiskRefused(t *testing.T) {
	r := harness.NewRuntimeWith(t, diskHost)
	root := harness.PrivateRoot(t)
	check(t, unix.Mount(root, root, "", unix.MS_BIND, ""))
	t.Cleanup(func() { check(t, unix.Unmount(root, 0)) })
	res := run(t, r, "true", onRoot(root, false))
	if res.Code == 0 || !strings.Contains(res.Stderr, "sandbox.resource_limits_unsupported") || !strings.Contains(res.Stderr, "type xfs") {
		t.Errorf("a snapshot that is no overlay: %v", res)
	}
	res = run(t, r, "echo x > /x || echo read-only", onRoot(harness.PrivateRoot(t), false), func(s *specs.Spec) {
		s.Annotations = map[string]string{"io.kubernetes.cri.container-type": "sandbox"}
	})
	if res.Code != 0 || !strings.Contains(res.Stdout, "read-only") {
		t.Errorf("pause: %v", res)
	}
	for _, dir := range []string{quotaDir, quotaDir + "/.sage", quotaDir + "/.sage/trees"} {
		check(t, os.MkdirAll(quotaDir+"/.sage/trees", 0o700))
		res = run(t, r, "true", onRoot(harness.PrivateRoot(t), true), func(s *specs.Spec) {
			s.Mounts = append(s.Mounts, specs.Mount{Destination: "/mnt", Type: "bind", Source: dir, Options: []string{"rbind", "ro"}})
		})
		if res.Code == 0 || !strings.Contains(res.Stderr, "sandbox.permission_denied") {
			t.Errorf("%s in the container: %v", dir, res)
		}
	}
	noIDs := harness.NewRuntimeWith(t, strings.Replace(diskHost, "quota: {project_ids: 100000-199999}\n", "", 1))
	if res := run(t, noIDs, "true", onRoot(harness.PrivateRoot(t), true)); res.Code != 0 {
		t.Errorf("without ids: %v, want those of the default", res)
	}
	nothingLeft(t, r)
}

// pause is a little longer every time, so that the kill comes everywhere.
func pause(i int) { time.Sleep(time.Duration(i) * 15 * time.Millisecond) }
