//go:build kernel

package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// linkCases are places where the runtime mounts or makes something, and what
// comes of it when the image has a link to a folder of the host there: a
// refusal, or where want is empty a path inside the root.
var linkCases = []struct{ link, want string }{
	{"/proc", "must be mounted on ordinary directory"},
	{"/sys", "must be mounted on ordinary directory"},
	{"/dev", ""},
	{"/dev/pts", ""},
	{"/dev/shm", ""},
	{"/dev/mqueue", ""},
	{"/dev/null", ""},
	{"/dev/ptmx", ""},
	{"/dev/console", ""},
	{"/sys/fs/cgroup", ""},
}

func TestSymlinkedMountPoints(t *testing.T) {
	for _, c := range linkCases {
		t.Run(c.link, func(t *testing.T) {
			outside := harness.TempDir(t)
			r := harness.NewRuntime(t)
			bundle := harness.NewBundle(t, func(s *specs.Spec) {
				s.Root.Path, s.Root.Readonly = harness.PrivateRoot(t), false
				s.Process.Args = []string{"touch", "/dev/shm/here"}
				replaceByLink(t, s.Root.Path+c.link, outside)
			})
			res := r.Run(t, "run", "--bundle", bundle.Dir, harness.NewID())
			runsOrSays(t, r, res, c.want)
			untouched(t, outside)
		})
	}
}

// runsOrSays wants success where the phrase is empty.
func runsOrSays(t *testing.T, r *harness.Runtime, res harness.Result, phrase string) {
	t.Helper()
	if phrase == "" {
		exitsWith(t, res, 0)
		return
	}
	refused(t, r, res, 1)
	if !strings.Contains(said(res), phrase) {
		t.Errorf("got %q, want %q", res.Stderr, phrase)
	}
}

func replaceByLink(t *testing.T, path, target string) {
	t.Helper()
	check(t, os.RemoveAll(path))
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.Symlink(target, path))
}

// untouched: mounts outside the root are the harness's business, files made in
// the host's folder are told here.
func untouched(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	for _, e := range entries {
		t.Errorf("the host's folder has %s", e.Name())
	}
}

// TestMountThroughLink: the destination of a mount leads through a link of the
// image to a path of the host. It means that path inside the root.
func TestMountThroughLink(t *testing.T) {
	outside := harness.TempDir(t)
	up := strings.Repeat("../", 12)
	for name, target := range map[string]string{"absolute": outside, "relative": up + outside} {
		t.Run(name, func(t *testing.T) {
			r := harness.NewRuntime(t)
			bundle := harness.NewBundle(t, func(s *specs.Spec) { mountThrough(t, s, target, outside) })
			exitsWith(t, r.Run(t, "run", "--bundle", bundle.Dir, harness.NewID()), 0)
			untouched(t, outside)
		})
	}
}

// mountThrough has both kinds of mount point, a folder and a file, made by the
// runtime beyond the link.
func mountThrough(t *testing.T, s *specs.Spec, target, outside string) {
	t.Helper()
	s.Root.Path, s.Root.Readonly = harness.PrivateRoot(t), false
	replaceByLink(t, filepath.Join(s.Root.Path, "link"), target)
	s.Mounts = append(s.Mounts,
		specs.Mount{Destination: "/link/deep", Type: "tmpfs", Source: "tmpfs"},
		specs.Mount{Destination: "/link/file", Type: "bind", Source: "/etc/hostname", Options: []string{"bind"}})
	s.Process.Args = []string{"sh", "-c", "grep -q ' " + outside + "/deep ' /proc/self/mountinfo && touch /link/deep/here"}
}

var fakeProcs = []struct {
	name, destination, kind, want string
}{
	{"folder on /proc", "/proc", "bind", "is not of type proc"},
	{"folder on /proc/self/attr", "/proc/self/attr", "bind", "is inside /proc"},
	{"tmpfs on /proc/sys", "/proc/sys", "tmpfs", "is inside /proc"},
	{"tmpfs on /sys", "/sys", "tmpfs", ""},
}

// TestFakeProc is CVE-2019-16884 and CVE-2019-19921: labels are written to
// /proc/self/attr, so nothing but procfs may be under /proc at that time.
func TestFakeProc(t *testing.T) {
	for _, c := range fakeProcs {
		t.Run(c.name, func(t *testing.T) {
			r := harness.NewRuntime(t)
			bundle := harness.NewBundle(t, func(s *specs.Spec) {
				s.Process.Args = []string{"true"}
				s.Mounts = append(s.Mounts, specs.Mount{Destination: c.destination, Type: c.kind, Source: harness.TempDir(t)})
				if c.kind == "bind" {
					s.Mounts[len(s.Mounts)-1].Options = []string{"bind"}
				}
			})
			runsOrSays(t, r, r.Run(t, "run", "--bundle", bundle.Dir, harness.NewID()), c.want)
		})
	}
}

// TestMaskedPaths looks from inside at what the default spec masks and makes
// read-only, as root and with the right to override file modes.
func TestMaskedPaths(t *testing.T) {
	root := harness.PrivateRoot(t)
	for _, name := range []string{"masked-file", "masked-folder/file", "readonly-folder/file"} {
		path := filepath.Join(root, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte("a secret of the image"), 0o666))
	}
	r := harness.NewRuntime(t)
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		s.Root.Path, s.Root.Readonly = root, false
		s.Linux.MaskedPaths = append(s.Linux.MaskedPaths, "/masked-file", "/masked-folder", "/not-there")
		s.Linux.ReadonlyPaths = append(s.Linux.ReadonlyPaths, "/readonly-folder")
		overrideModes(s)
		s.Process.Args = []string{"sh", "-c", maskScript}
	})
	res := r.Run(t, "run", "--bundle", bundle.Dir, harness.NewID())
	exitsWith(t, res, 0)
	for line := range strings.Lines(res.Stdout) {
		t.Error(strings.TrimSpace(line))
	}
}

// maskScript prints a line for everything that is not as it should be.
const maskScript = `
for f in /masked-file /proc/kcore /proc/keys /proc/timer_list; do
	[ -e $f ] && [ -n "$(head -c 1 $f 2>/dev/null)" ] && echo "$f can be read"
	(echo x > $f) 2>/dev/null && [ -s $f ] && echo "$f can be written"
done
for d in /masked-folder /sys/firmware /proc/scsi; do
	[ -d $d ] && [ -n "$(ls -A $d)" ] && echo "$d can be listed"
	(: > $d/new) 2>/dev/null && echo "$d can be written"
done
for f in /readonly-folder/file /readonly-folder/new /proc/sysrq-trigger /proc/sys/kernel/hostname /proc/irq/default_smp_affinity; do
	(echo x > $f) 2>/dev/null && echo "$f can be written"
done
grep -q secret /readonly-folder/file || echo "a read-only path lost its content"
umount /masked-file 2>/dev/null && echo "a mask can be taken off"
mount -o remount,rw /proc/sys 2>/dev/null && echo "read-only can be taken off"
exit 0
`

// overrideModes: without it a file's mode could be what protects it.
func overrideModes(s *specs.Spec) {
	for _, set := range []*[]string{&s.Process.Capabilities.Bounding, &s.Process.Capabilities.Effective, &s.Process.Capabilities.Permitted} {
		*set = append(*set, "CAP_DAC_OVERRIDE")
	}
}
