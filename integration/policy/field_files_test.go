//go:build kernel

package policy

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// soft are the host files that most tests here are run under.
var soft = map[string]string{"sage": harness.SoftSage, "agent": harness.SoftAgent}

// TestCVE2019_5736: the container makes the runtime execute its own binary there
// and then writes to what it caught. Under the profile agent, whose root can be
// written and whose processes can be traced.
//
// Proves: S-046.
func TestCVE2019_5736(t *testing.T) {
	r := harness.NewRuntimeWith(t, harness.SoftAgent)
	dir := harness.TempDir(t)
	_, err := harness.Output(exec.Command("cp", r.Bin, dir))
	check(t, err)
	r.Bin = filepath.Join(dir, filepath.Base(r.Bin))
	before := digest(t, r.Bin)
	for _, line := range caught(t, r, 3) {
		t.Log(line)
		if !strings.HasSuffix(line, ": Read-only file system") && !strings.HasSuffix(line, ": Operation not permitted") {
			t.Errorf("the container opened the runtime's binary for writing: %s", line)
		}
	}
	if digest(t, r.Bin) != before {
		t.Error("the runtime's binary changed")
	}
}

// caught is what the attacker says of n executions of the binary.
func caught(t *testing.T, r *harness.Runtime, n int) []string {
	t.Helper()
	root := harness.PrivateRoot(t)
	_, err := harness.Output(exec.Command("cp", harness.HostProbe(t, "reopen"), filepath.Join(root, "reopen")))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(root, "self"), []byte("#!/proc/self/exe --log=/block\n"), 0o755))
	check(t, unix.Mkfifo(filepath.Join(root, "block"), 0o666))
	b := harness.NewBundle(t, func(s *specs.Spec) {
		s.Root.Path, s.Root.Readonly = root, false
		s.Process.Args = []string{"/reopen", strconv.Itoa(n)}
	})
	id := harness.NewID()
	attacker := r.Start(t, "run", "--bundle", b.Dir, id)
	harness.Eventually(t, "the attacker is ready", func() bool { return strings.Contains(attacker.Stdout(t), "ready") })
	for i := range n {
		r.Run(t, "exec", id, "/self") // What the binary says to it does not matter.
		harness.Eventually(t, "the attacker caught it", func() bool { return strings.Count(attacker.Stdout(t), "\n") == i+2 })
	}
	return strings.Split(strings.TrimSpace(attacker.Wait(t).Stdout), "\n")[1:]
}

func digest(t *testing.T, path string) [sha256.Size]byte {
	t.Helper()
	return sha256.Sum256([]byte(readText(t, path)))
}

// TestCVE2024_21626: a working directory that is a descriptor of the runtime's,
// by its own name or by a link in the image, at run and at exec; and no
// descriptor of the runtime's to be found by the program.
//
// Proves: S-110.
func TestCVE2024_21626(t *testing.T) {
	for name, host := range soft {
		t.Run(name, func(t *testing.T) {
			r := harness.NewRuntimeWith(t, host)
			root := harness.PrivateRoot(t)
			id := harness.NewID()
			b := harness.NewBundle(t, func(s *specs.Spec) { s.Root.Path, s.Process.Args = root, []string{"sleep", "1000"} })
			r.Must(t, "run", "--detach", "--bundle", b.Dir, id)
			for fd := range 41 {
				number := strconv.Itoa(fd)
				check(t, os.Symlink("/proc/self/fd/"+number, filepath.Join(root, "link"+number)))
				for _, cwd := range []string{"/proc/self/fd/" + number, "/proc/thread-self/fd/" + number, "/link" + number} {
					stuck(t, r, root, id, cwd)
				}
			}
			wantOnlyStdio(t, r, id)
		})
	}
}

// stuck: no program gets to run in that working directory.
func stuck(t *testing.T, r *harness.Runtime, root, id, cwd string) {
	t.Helper()
	payload := []string{"sh", "-c", "echo the program ran; pwd -P; ls ."}
	b := harness.NewBundle(t, func(s *specs.Spec) { s.Root.Path, s.Process.Args, s.Process.Cwd = root, payload, cwd })
	for verb, res := range map[string]harness.Result{
		"run":  r.Run(t, "run", "--bundle", b.Dir, harness.NewID()),
		"exec": r.Run(t, append([]string{"exec", "--cwd", cwd, id}, payload...)...),
	} {
		if res.Code == 0 || strings.Contains(res.Stdout, "the program ran") {
			t.Errorf("%s in %s: got %s, want a refusal", verb, cwd, res)
		}
	}
}

func wantOnlyStdio(t *testing.T, r *harness.Runtime, id string) {
	t.Helper()
	// 3 is the folder that ls itself reads.
	const list = "ls /proc/self/fd"
	want := []string{"0", "1", "2", "3"}
	run := r.Run(t, "run", "--bundle", harness.NewBundle(t, harness.Args("sh", "-c", list)).Dir, harness.NewID())
	for verb, res := range map[string]harness.Result{"run": run, "exec": r.Run(t, "exec", id, "sh", "-c", list)} {
		if diff := cmp.Diff(want, strings.Fields(res.Stdout)); diff != "" {
			t.Errorf("descriptors at %s (-want +got):\n%s", verb, diff)
		}
	}
}

// nullLinks are what /dev/null of an image may be a link to, in a bundle that
// mounts nothing on /dev.
var nullLinks = []string{"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc", "../proc/self/attr/exec", "/etc/passwd"}

// TestCVE2025_31133: paths are masked with /dev/null of the container, which an
// image can replace.
func TestCVE2025_31133(t *testing.T) {
	var tricks []trick
	for _, target := range nullLinks {
		tricks = append(tricks, trick{"link to " + target, func(t *testing.T, s *specs.Spec) {
			s.Root.Path = harness.PrivateRoot(t)
			link := filepath.Join(s.Root.Path, "dev", "null")
			check(t, os.RemoveAll(filepath.Dir(link)))
			check(t, os.Mkdir(filepath.Dir(link), 0o755))
			check(t, os.Symlink(target, link))
			withoutDev(s)
		}, nil})
	}
	failAll(t, tricks, harness.SoftSage, harness.SoftAgent)
}

func withoutDev(s *specs.Spec) {
	var kept []specs.Mount
	for _, m := range s.Mounts {
		if !strings.HasPrefix(m.Destination, "/dev") {
			kept = append(kept, m)
		}
	}
	s.Mounts = kept
}

// TestCVE2025_52881: what the runtime writes below /proc, a label or a sysctl,
// lands in another file if /proc is not what it takes it for.
func TestCVE2025_52881(t *testing.T) {
	sysctl := func(edit func(*testing.T, *specs.Spec)) func(*testing.T, *specs.Spec) {
		return func(t *testing.T, s *specs.Spec) {
			s.Linux.Sysctl = map[string]string{"net.ipv4.ip_unprivileged_port_start": "1024"}
			edit(t, s)
		}
	}
	imageLink := func(name, target string) func(*testing.T, *specs.Spec) {
		return func(t *testing.T, s *specs.Spec) {
			s.Root.Path = harness.PrivateRoot(t)
			replaceByLink(t, filepath.Join(s.Root.Path, name), target)
		}
	}
	tmpfs := func(destination string) func(*testing.T, *specs.Spec) {
		return mounted(specs.Mount{Type: "tmpfs", Source: "tmpfs", Destination: destination})
	}
	failAll(t, []trick{
		{"proc is a link", sysctl(imageLink("proc", "/tmp")), []string{"/proc"}},
		{"proc is a link to sys", sysctl(imageLink("proc", "sys")), []string{"/proc"}},
		{"sys is a link to proc", sysctl(imageLink("sys", "proc")), []string{"/sys"}},
		{"tmpfs on proc", sysctl(tmpfs("/proc")), []string{"/proc"}},
		{"tmpfs on proc/self/attr", sysctl(tmpfs("/proc/self/attr")), []string{"/proc"}},
		{"tmpfs on proc/sys/net", sysctl(tmpfs("/proc/sys/net")), []string{"/proc"}},
		{"no proc at all", sysctl(func(_ *testing.T, s *specs.Spec) { withoutMount(s, "/proc") }), nil},
		{"sysctl out of proc/sys", func(_ *testing.T, s *specs.Spec) {
			s.Linux.Sysctl = map[string]string{"net/../../sysrq-trigger": "b"}
		}, []string{"linux.sysctl"}},
	}, harness.SoftSage, harness.SoftAgent)
}

func withoutMount(s *specs.Spec, destination string) {
	var kept []specs.Mount
	for _, m := range s.Mounts {
		if m.Destination != destination {
			kept = append(kept, m)
		}
	}
	s.Mounts = kept
}

func replaceByLink(t *testing.T, path, target string) {
	t.Helper()
	check(t, os.RemoveAll(path))
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.Symlink(target, path))
}

// TestCVE2026_41579: an image whose /dev, or part of it, leads out of the root
// when the runtime makes devices there.
func TestCVE2026_41579(t *testing.T) {
	for _, link := range []string{"/dev", "/dev/pts", "/dev/shm", "/dev/null", "/dev/ptmx", "/dev/console"} {
		for name, host := range soft {
			t.Run(link+" under "+name, func(t *testing.T) {
				outside := harness.TempDir(t)
				r := harness.NewRuntimeWith(t, host)
				b := harness.NewBundle(t, func(s *specs.Spec) {
					s.Root.Path = harness.PrivateRoot(t)
					s.Process.Args = []string{"sh", "-c", "echo x >/dev/null; echo x >/dev/shm/f; exit 0"}
					replaceByLink(t, s.Root.Path+link, outside)
				})
				t.Log(r.Run(t, "run", "--bundle", b.Dir, harness.NewID()))
				entries, err := os.ReadDir(outside)
				check(t, err)
				for _, e := range entries {
					t.Errorf("the host's folder has %s", e.Name())
				}
			})
		}
	}
}

// TestMountDestinationRaces are CVE-2021-30465, 2023-27561, 2023-28642 and
// 2024-45310: mount points change while they are being made, in folders that
// another container can write to.
func TestMountDestinationRaces(t *testing.T) {
	for name, target := range map[string]string{
		"up": "../../../../../../../../../../", "host folder": "", "proc": "/proc", "root": "/",
	} {
		t.Run(name, func(t *testing.T) {
			outside := harness.TempDir(t)
			if target == "" {
				target = outside
			}
			root := harness.PrivateRoot(t)
			plain, link := filepath.Join(root, "real"), filepath.Join(root, "link")
			check(t, os.Mkdir(plain, 0o755))
			check(t, os.Symlink(target, link))
			defer swap(t, plain, link)()
			race(t, func(s *specs.Spec) {
				s.Root.Path, s.Root.Readonly = root, false
				s.Mounts = append(s.Mounts,
					specs.Mount{Destination: "/real/deep/tmpfs", Type: "tmpfs", Source: "tmpfs"},
					specs.Mount{Destination: "/real/file", Type: "bind", Source: "/etc/hostname", Options: []string{"bind"}})
			})
			entries, err := os.ReadDir(outside)
			check(t, err)
			for _, e := range entries {
				t.Errorf("the host's folder has %s", e.Name())
			}
		})
	}
}
