//go:build kernel || vm

package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestMain is the test, or the setup that a test has killed.
func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv("SETUP_TEST_DIR"); ok {
		if err := child(dir, os.Getenv("SETUP_TEST_VERB")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child kills itself at the point whose number it is given, as a kill -9 from
// outside could hit.
func child(dir, verb string) error {
	o := options(dir)
	left, err := strconv.Atoi(os.Getenv("SETUP_TEST_POINTS"))
	if err != nil {
		return err
	}
	o.crash = func(point string) {
		if !worth(point) {
			return
		}
		if left--; left == 0 {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	if verb == "undo" {
		return Undo(o, func(Line) {})
	}
	return prepareHere(context.Background(), o, func(Line) {})
}

// worth leaves out, in the slow guest, the points of those parts that are run
// on every host.
func worth(point string) bool {
	return !whole || slices.ContainsFunc([]string{"mount ", "cgroup ", "controllers ", "loop "},
		func(part string) bool { return strings.Contains(point, part) })
}

// options are of a host in a directory, but for its kernel.
func options(dir string) Options {
	at := func(name string) string { return filepath.Join(dir, name) }
	return Options{
		Image: at("images/quota.img"), Size: minSize, Mount: at("srv/mount"), Persist: true,
		Cgroup: "/sys/fs/cgroup/" + filepath.Base(dir) + "/below", Audit: at("log/audit"), Config: at("etc/sage/config.yaml"),
		Record: at("setup.json"), fstab: at("fstab"),
	}
}

// prepareHere is Run, or as much of it as this host allows.
func prepareHere(ctx context.Context, o Options, say func(Line)) error {
	if whole {
		_, err := Run(ctx, o, say)
		return err
	}
	return withJob(o, say, func(j *job) error {
		err := j.cleanUp()
		host, errConfig := readConfig(j.Config)
		err = errors.Join(err, errConfig)
		for _, part := range []func() error{func() error { return j.image(ctx) }, j.persist, j.audit, func() error { _, err := j.config(host); return err }} {
			if err == nil {
				err = part()
			}
		}
		return err
	})
}

// newHost is a directory for a host of its own, which all has to be like again.
func newHost(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("run as root: setup is for root")
	}
	dir := filepath.Join(t.TempDir(), fmt.Sprintf("sage-setup-test-%d", os.Getpid())) // also names a cgroup
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "fstab"), []byte("# of a test\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Unmount(options(dir).Mount, unix.MNT_DETACH)
		_ = os.Remove(options(dir).Cgroup)
		_ = os.Remove(filepath.Dir(options(dir).Cgroup))
	})
	return dir
}

// traces are all that a setup could leave behind on this host.
func traces(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		text := ""
		if filepath.Base(path) == "fstab" {
			data, _ := os.ReadFile(path)
			text = string(data)
		}
		all = append(all, path+" "+text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir) {
			all = append(all, line)
		}
	}
	loops, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, path := range loops {
		if data, _ := os.ReadFile(path); strings.HasPrefix(string(data), dir) {
			all = append(all, path+" "+string(data))
		}
	}
	if _, err := os.Stat(filepath.Dir(options(dir).Cgroup)); err == nil {
		all = append(all, options(dir).Cgroup)
	}
	on, _ := words(cgroupMount, "cgroup.subtree_control")
	return append(all, on...)
}

// killed runs a setup up to its nth point, and says whether it came to that.
func killed(t *testing.T, dir, verb string, n int) bool {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "SETUP_TEST_DIR="+dir, "SETUP_TEST_VERB="+verb, "SETUP_TEST_POINTS="+strconv.Itoa(n))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%s up to point %d: %v: %s", verb, n, err, out)
	}
	return true
}

// TestKilled: killed at any point, setup can be undone, and can be called
// again; and so can the undoing.
//
// Proves: S-138.
func TestKilled(t *testing.T) {
	dir := newHost(t)
	before := traces(t, dir)
	same := func(what string, n int) {
		t.Helper()
		if diff := cmp.Diff(before, traces(t, dir)); diff != "" {
			t.Fatalf("%s at point %d (-before +after):\n%s", what, n, diff)
		}
	}
	undo := func(what string, n int) {
		t.Helper()
		if err := Undo(options(dir), func(Line) {}); err != nil {
			t.Fatalf("%s at point %d: undo: %v", what, n, err)
		}
		same(what, n)
	}
	n := 1
	for ; killed(t, dir, "setup", n); n++ {
		if n%2 == 0 {
			if err := prepareHere(t.Context(), options(dir), func(Line) {}); err != nil {
				t.Fatalf("after a kill at point %d: %v", n, err)
			}
		}
		undo("setup killed", n)
	}
	if n < 15 {
		t.Errorf("setup was killed at %d points, want some for every part", n)
	}
	undo("setup not killed", n)
	for n = 1; ; n++ {
		if err := prepareHere(t.Context(), options(dir), func(Line) {}); err != nil {
			t.Fatal(err)
		}
		more := killed(t, dir, "undo", n)
		undo("undo killed", n)
		if !more {
			break
		}
	}
	if n < 5 {
		t.Errorf("undo was killed at %d points, want one for every part", n)
	}
}

// TestTwice: the second call makes nothing, and Undo takes back all.
func TestTwice(t *testing.T) {
	dir := newHost(t)
	before := traces(t, dir)
	for _, want := range []Did{Made, Already} {
		var got []Line
		if err := prepareHere(t.Context(), options(dir), func(l Line) { got = append(got, l) }); err != nil {
			t.Fatal(err)
		}
		for _, l := range got {
			// Of the cgroups, some are there on every host.
			if l.Did != want && (want != Made || l.Part != "cgroup") {
				t.Errorf("got %+v, want it %s", l, want)
			}
		}
	}
	if err := Undo(options(dir), func(Line) {}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, traces(t, dir)); diff != "" {
		t.Errorf("undo (-before +after):\n%s", diff)
	}
}

// TestNoQuota: where the kernel has no quotas, a mount says why, and nothing
// of the image is left; where it has, the mount is there and goes.
//
// Proves: S-010, S-155.
func TestNoQuota(t *testing.T) {
	dir := newHost(t)
	before := traces(t, dir)
	err := withJob(options(dir), func(Line) {}, func(j *job) error {
		err := j.image(t.Context())
		if err == nil {
			var st unix.Stat_t
			if err := unix.Stat(j.Image, &st); err != nil || st.Size != minSize || st.Blocks*512 < st.Size {
				t.Errorf("got an image of %d bytes on %d, %v, want %d and all of its space", st.Size, st.Blocks*512, err, minSize)
			}
			err = j.mount()
		}
		return errors.Join(err, j.takeBack(func(it item) bool { return it.fresh }))
	})
	if has := quotaKernel() == nil; has != (err == nil) || !has && !errors.Is(err, errNoQuota) {
		t.Errorf("got %v on a kernel where quotas are %t", err, has)
	}
	if diff := cmp.Diff(before, traces(t, dir)); diff != "" {
		t.Errorf("left behind (-before +after):\n%s", diff)
	}
}

// TestKept: what others have changed or put there is not taken back.
func TestKept(t *testing.T) {
	dir := newHost(t)
	o := options(dir)
	if err := prepareHere(t.Context(), o, func(Line) {}); err != nil {
		t.Fatal(err)
	}
	theirs := map[string]string{o.Config: "version: 1\n", filepath.Join(o.Audit, "c1.jsonl"): "{}\n"}
	for path, text := range theirs {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := os.ReadFile(o.fstab)
	changed := strings.Replace(string(text), "nofail", "noauto", 1)
	if err := os.WriteFile(o.fstab, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	theirs[o.fstab] = changed
	kept := map[string]bool{}
	err := Undo(o, func(l Line) {
		if l.Did == Kept && l.Part != string(kindControllers) {
			kept[strings.Split(l.What, ":")[0]] = true
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{o.Config: true, o.Audit: true, filepath.Dir(o.Audit): true, filepath.Dir(o.Config): true, filepath.Dir(filepath.Dir(o.Config)): true, o.fstab: true}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	for path, want := range theirs {
		if got, err := os.ReadFile(path); string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", path, got, err, want)
		}
	}
}

// TestHostile: what setup must not write over, believe or follow.
func TestHostile(t *testing.T) {
	write := func(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }
	tests := map[string]struct {
		put  func(o Options) error
		want string
	}{
		"a file for image": {func(o Options) error {
			return errors.Join(os.MkdirAll(filepath.Dir(o.Image), 0o755), write(o.Image, "precious"))
		}, "no image of XFS"},
		"a link for image": {func(o Options) error {
			return errors.Join(os.MkdirAll(filepath.Dir(o.Image), 0o755), os.Symlink("/dev/null", o.Image))
		}, "want root's, and writable by nobody else"},
		"a dangling link for image": {func(o Options) error {
			return errors.Join(os.MkdirAll(filepath.Dir(o.Image), 0o755), os.Symlink("/nowhere/x", o.Image))
		}, "no such file"},
		"a directory that others write": {func(o Options) error {
			return errors.Join(os.MkdirAll(filepath.Dir(o.Image), 0o755), os.Chmod(filepath.Dir(o.Image), 0o777))
		}, "writable by nobody else"},
		"a directory of another's": {func(o Options) error {
			return errors.Join(os.MkdirAll(filepath.Dir(o.Image), 0o755), os.Chown(filepath.Dir(o.Image), 1001, 1001))
		}, "owner 1001"},
		"another line in fstab":      {func(o Options) error { return write(o.fstab, "/dev/sdx "+o.Mount+" xfs defaults 0 0\n") }, "another mount"},
		"another at work":            {func(o Options) error { _, err := lock(filepath.Dir(o.Record)); return err }, "another setup at work"},
		"a record of another's":      {func(o Options) error { return errors.Join(write(o.Record, "{}"), os.Chown(o.Record, 1001, 1001)) }, "owner 1001"},
		"a file for directory":       {func(o Options) error { return write(filepath.Dir(filepath.Dir(o.Audit)), "") }, "not a directory"},
		"files at the mount":         {func(o Options) error { return errors.Join(os.MkdirAll(o.Mount+"/x", 0o755)) }, "files in it"},
		"more than there is of disk": {func(Options) error { return nil }, "want "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(name, "mount") && !whole {
				return // this part is not run here
			}
			dir := newHost(t)
			o := options(dir)
			switch name {
			case "more than there is of disk":
				o.Size = 1 << 42
			case "a file for directory":
				o.Audit = filepath.Join(dir, "file/log/audit")
			}
			if err := tt.put(o); err != nil {
				t.Fatal(err)
			}
			before := traces(t, dir)
			err := withJob(o, func(Line) {}, func(*job) error { return nil })
			if err == nil {
				err = prepareHere(t.Context(), o, func(Line) {})
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if !whole {
				_ = Undo(o, func(Line) {}) // the parts alone take nothing back
			}
			if diff := cmp.Diff(before, traces(t, dir)); diff != "" {
				t.Errorf("left behind (-before +after):\n%s", diff)
			}
		})
	}
}

// TestExistingImage: one that was there is used as it is, and stays.
func TestExistingImage(t *testing.T) {
	dir := newHost(t)
	o := options(dir)
	if err := os.MkdirAll(filepath.Dir(o.Image), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(o.Image, nil, 0o600), os.Truncate(o.Image, minSize), mkfs(t.Context(), o.Image)); err != nil {
		t.Fatal(err)
	}
	before := traces(t, dir)
	sparse := false
	err := prepareHere(t.Context(), o, func(l Line) {
		sparse = sparse || l.Part == "image" && l.Did == Already && strings.Contains(l.What, "EIO")
	})
	if err != nil || !sparse {
		t.Errorf("got %v, told of a sparse image %t", err, sparse)
	}
	if err := Undo(o, func(Line) {}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, traces(t, dir)); diff != "" {
		t.Errorf("undo (-before +after):\n%s", diff)
	}
}
