//go:build kernel

package policy

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestAttack05: a bundle mounts the kernel's own file systems, of the host or
// over those of the container, by every way that a path can lead there.
//
// Proves: S-016, E-032.
func TestAttack05(t *testing.T) {
	failAll(t, []trick{
		{"proc of the host", bind("/proc", "/x"), []string{"mounts["}},
		{"proc of the host, recursive", bind("/proc", "/x", "rbind"), []string{"mounts["}},
		{"proc of the host over proc", bind("/proc", "/proc", "rbind"), []string{"mounts["}},
		{"part of proc", bind("/proc/sys/kernel", "/x"), []string{"mounts["}},
		{"file of proc", bind("/proc/sysrq-trigger", "/x"), nil},
		{"file of proc/sys", bind("/proc/sys/kernel/core_pattern", "/x"), []string{"mounts["}},
		{"proc by init", bind("/proc/1/root/proc", "/x"), []string{"mounts["}},
		{"root by init", bind("/proc/1/root", "/x", "rbind"), []string{"mounts["}},
		{"root by cwd", bind("/proc/self/cwd/../../../../../../..", "/x", "rbind"), []string{"mounts["}},
		{"sys of the host", bind("/sys", "/x", "rbind"), []string{"mounts["}},
		{"part of sys", bind("/sys/kernel", "/x"), []string{"mounts["}},
		{"cgroups of the host", bind("/sys/fs/cgroup", "/x", "rbind"), []string{"mounts["}},
		{"one hierarchy", bind("/sys/fs/cgroup/memory", "/x"), []string{"mounts["}},
		{"dev of the host", bind("/dev", "/x", "rbind"), []string{"mounts["}},
		{"dev over dev", bind("/dev", "/dev", "rbind"), []string{"mounts["}},
		{"root of the host", bind("/", "/h", "rbind"), []string{"mounts["}},
		{"root of the host, alone", bind("/", "/h"), nil},
		{"root of the host by a longer way", bind("/usr/../", "/h", "rbind"), []string{"mounts["}},
		{"folder over sys", folderOver("/sys"), []string{"mounts["}},
		{"folder over proc", folderOver("/proc"), []string{"mounts["}},
		{"folder over proc/sys", folderOver("/proc/sys"), []string{"mounts["}},
		{"folder over proc/self", folderOver("/proc/self"), []string{"mounts["}},
		{"folder over proc, written oddly", folderOver("//proc/./self/../sys"), []string{"mounts["}},
		{"folder over run/sage", folderOver("/run/sage"), []string{"mounts["}},
		{"folder over run/sage by var", folderOver("/var/run/sage"), nil},
		{"tmpfs over proc/sys", mounted(specs.Mount{Type: "tmpfs", Source: "tmpfs", Destination: "/proc/sys"}), []string{"mounts["}},
		{"second proc", mounted(specs.Mount{Type: "proc", Source: "proc", Destination: "/x"}), nil},
		{"second sys", mounted(specs.Mount{Type: "sysfs", Source: "sysfs", Destination: "/x", Options: []string{"rw"}}), nil},
		{"source is a link to proc", func(t *testing.T, s *specs.Spec) { bind(linkTo(t, "/proc"), "/x", "rbind")(t, s) }, []string{"mounts["}},
		{"source is a link to the root", func(t *testing.T, s *specs.Spec) { bind(linkTo(t, "/"), "/x", "rbind")(t, s) }, []string{"mounts["}},
		{"destination is a link to proc", linkedDestination("/proc"), []string{"mounts["}},
		// Of the image's own /proc only what is there can be judged before.
		{"destination is a link to proc/sys", linkedDestination("/proc/sys"), []string{"inside /proc"}},
		{"destination is a link up and to proc", linkedDestination("../../../../proc"), []string{"mounts["}},
		{"destination is two links", twoLinks, []string{"mounts["}},
	}, harness.SoftSage, harness.SoftAgent)
}

// folderOver mounts a harmless folder of the host over something.
func folderOver(destination string) func(*testing.T, *specs.Spec) {
	return func(t *testing.T, s *specs.Spec) { bind(harness.TempDir(t), destination)(t, s) }
}

func linkTo(t *testing.T, target string) string {
	t.Helper()
	name := filepath.Join(harness.TempDir(t), "link")
	check(t, os.Symlink(target, name))
	return name
}

// linkedDestination has a link in the image where something is to be mounted.
func linkedDestination(target string) func(*testing.T, *specs.Spec) {
	return func(t *testing.T, s *specs.Spec) {
		s.Root.Path = harness.PrivateRoot(t)
		check(t, os.Symlink(target, filepath.Join(s.Root.Path, "link")))
		folderOver("/link")(t, s)
	}
}

func twoLinks(t *testing.T, s *specs.Spec) {
	linkedDestination("/also/../also")(t, s)
	check(t, os.Symlink("proc", filepath.Join(s.Root.Path, "also")))
}

// swap exchanges two paths over and over, as a hostile container does that can
// write to the folder they are in, until it is told to stop.
func swap(t *testing.T, a, b string) (stop func()) {
	t.Helper()
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
				// Not faster than the runtime can meet both.
				time.Sleep(200 * time.Microsecond)
			}
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

// TestAttack05Races: source and destination change what they are while the
// container is being made. Each time it either fails or sees nothing of the
// host.
func TestAttack05Races(t *testing.T) {
	for _, target := range []string{"/proc", "/", "/sys"} {
		t.Run("source "+target, func(t *testing.T) {
			dir := harness.TempDir(t)
			plain, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
			check(t, os.Mkdir(plain, 0o755))
			check(t, os.Symlink(target, link))
			defer swap(t, plain, link)()
			race(t, func(s *specs.Spec) { bind(plain, "/x", "rbind")(t, s) })
		})
	}
	for _, target := range []string{"/proc", "/proc/sys", "/sys", "/dev", "../../../../../../../../etc"} {
		t.Run("destination "+target, func(t *testing.T) {
			root, source := harness.PrivateRoot(t), harness.TempDir(t)
			plain, link := filepath.Join(root, "real"), filepath.Join(root, "link")
			check(t, os.Mkdir(plain, 0o755))
			check(t, os.Symlink(target, link))
			defer swap(t, plain, link)()
			race(t, func(s *specs.Spec) {
				s.Root.Path = root
				bind(source, "/real")(t, s)
			})
		})
	}
}

// TestRootRace: the root file system becomes the host's while the container is
// being made.
func TestRootRace(t *testing.T) {
	dir := harness.TempDir(t)
	plain, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	check(t, os.Rename(harness.PrivateRoot(t), plain))
	check(t, os.Symlink("/", link))
	defer swap(t, plain, link)()
	race(t, func(s *specs.Spec) { s.Root.Path, s.Root.Readonly = plain, false })
}

// TestNamespaceRace: the path of a namespace that may be shared comes to be the
// host's.
//
// Proves: S-100.
func TestNamespaceRace(t *testing.T) {
	dir := harness.TempDir(t)
	plain, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	check(t, os.Symlink("/proc/"+strconv.Itoa(namespaceHolder(t, unix.CLONE_NEWNET))+"/ns/net", plain))
	check(t, os.Symlink("/proc/"+strconv.Itoa(os.Getpid())+"/ns/net", link))
	host, err := os.Readlink("/proc/self/ns/net")
	check(t, err)
	defer swap(t, plain, link)()
	r := harness.NewRuntimeWith(t, harness.SoftAgent+"shared_namespaces: [network]\n")
	b := harness.NewBundle(t, func(s *specs.Spec) {
		joinNamespace(s, specs.NetworkNamespace, plain)
		s.Process.Args = []string{"readlink", "/proc/self/ns/net"}
	})
	ran, failed := 0, map[string]int{}
	for range 30 {
		switch res := r.Run(t, "run", "--bundle", b.Dir, harness.NewID()); {
		case res.Code != 0:
			failed[lastWords(res)]++
		case strings.TrimSpace(res.Stdout) == host:
			t.Error("the container was in the network namespace of the host")
		default:
			ran++
		}
	}
	t.Logf("%d ran, refused: %v", ran, failed)
}

// race starts a container many times over, and says how often which came of it.
func race(t *testing.T, edit func(*specs.Spec)) {
	t.Helper()
	hostMarker(t)
	r := harness.NewRuntimeWith(t, harness.SoftAgent)
	b := harness.NewBundle(t, func(s *specs.Spec) {
		s.Process.Args = []string{"sh", "-c", looker}
		edit(s)
	})
	ran, failed := 0, map[string]int{}
	for range 20 {
		res := r.Run(t, "run", "--bundle", b.Dir, harness.NewID())
		if res.Code != 0 {
			failed[lastWords(res)]++
			continue
		}
		ran++
		for line := range strings.Lines(res.Stdout) {
			t.Error(strings.TrimSpace(line))
		}
	}
	t.Logf("%d ran, refused: %v", ran, failed)
}

// lastWords shortens a message to what does not change from run to run.
func lastWords(res harness.Result) string {
	text := strings.TrimSpace(said(res))
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[i+2:]
	}
	return text
}
