//go:build kernel

package policy

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
	"github.com/sage-sandbox/sage/integration/victim/expect"
)

// tries runs single attempts in one container, as a user, and compares.
func tries(t *testing.T, host string, user specs.User, edit func(*specs.Spec), wants map[string]string) {
	t.Helper()
	r := harness.NewRuntimeWith(t, host)
	b := victimBundle(t, victimRoot(t), "sleep", "1000")
	b.Spec.Process.User = user
	if edit != nil {
		edit(b.Spec)
	}
	b.Write(t)
	id := harness.NewID()
	r.Must(t, "run", "--detach", "--bundle", b.Dir, id)
	for _, attempt := range slices.Sorted(maps.Keys(wants)) {
		program := expect.Program
		if name, ok := strings.CutPrefix(attempt, "386 "); ok {
			program, attempt = expect.I386, name
		}
		want := wants[attempt]
		if program == expect.I386 {
			want = wants["386 "+attempt]
		}
		res := r.Run(t, "exec", "--user", fmt.Sprintf("%d:%d", user.UID, user.GID), id, program, "try", "exec", attempt)
		if got := answer(res); got != want {
			t.Errorf("%s: got %s, want %s", attempt, got, want)
		}
	}
}

// answer is what a victim said, or what became of it.
func answer(res harness.Result) string {
	if res.Code == 128+int(unix.SIGSYS) {
		return "SIGSYS"
	}
	return res.Stdout
}

// TestAFALG is CVE-2026-31431: a socket to the kernel's own ciphers, by every
// table of calls and through a bundle's profile that allows everything.
//
// Proves: S-106, G-21.
func TestAFALG(t *testing.T) {
	for _, p := range profiles {
		t.Run(string(p.name), func(t *testing.T) {
			native := map[expect.Profile]string{expect.Sage: "EPERM"}[p.name]
			if native == "" {
				native = "EAFNOSUPPORT"
			}
			tries(t, p.host, specs.User{}, func(s *specs.Spec) {
				s.Linux.Seccomp = &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Architectures: []specs.Arch{specs.ArchX86_64, specs.ArchX86, specs.ArchX32}}
			}, map[string]string{
				"socket alg": native, "socket alg, a bit above": native,
				"x32 socket": "ENOSYS", "int80 socketcall alg": "SIGSYS",
				"386 socketcall alg": "SIGSYS", "386 socket alg": "SIGSYS",
			})
		})
	}
}

// TestUserNamespaces: no process gets a new one in any way, with any profile,
// whoever it is: as root, as another user, and as the root of a user namespace
// that the bundle itself asked for.
//
// Proves: S-101, S-102.
func TestUserNamespaces(t *testing.T) {
	wants := map[string]string{
		"unshare user": "EPERM", "unshare user and mnt": "EPERM", "unshare user, a bit above": "EPERM",
		"clone user": "EPERM", "clone user, a bit above": "EPERM", "clone user, many bits above": "EPERM",
		"clone3": "ENOSYS", "clone3 user": "ENOSYS", "setns user": "EPERM", "setns by pidfd": "EPERM",
		"x32 unshare": "ENOSYS", "x32 clone user": "ENOSYS", "x32 clone3": "ENOSYS",
		"int80 clone user": "SIGSYS", "int80 unshare user": "SIGSYS", "386 unshare user": "SIGSYS", "386 clone user": "SIGSYS",
	}
	for _, p := range profiles {
		t.Run(string(p.name), func(t *testing.T) {
			for _, id := range []uint32{0, 1001} {
				t.Run(fmt.Sprintf("user %d", id), func(t *testing.T) { tries(t, p.host, specs.User{UID: id, GID: id}, nil, wants) })
			}
		})
	}
	t.Run("in a user namespace", func(t *testing.T) {
		tries(t, harness.SoftAgent, specs.User{}, mapUsers, wants)
	})
}

// mapUsers has root of the container be nobody outside.
func mapUsers(s *specs.Spec) {
	s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
	some := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 200000, Size: 65536}}
	s.Linux.UIDMappings, s.Linux.GIDMappings = some, some
}

// TestNoSetuid: neither the bit nor capabilities of a file make anybody more
// than they were, nor does su.
//
// Proves: S-102.
func TestNoSetuid(t *testing.T) {
	for _, p := range profiles {
		t.Run(string(p.name), func(t *testing.T) {
			r := harness.NewRuntimeWith(t, p.host)
			root := victimRoot(t)
			capable(t, root)
			b := victimBundle(t, root, "sleep", "1000")
			b.Spec.Process.User = specs.User{UID: 1001, GID: 1001}
			b.Spec.Process.Capabilities.Ambient, b.Spec.Process.Capabilities.Inheritable = nil, nil
			b.Write(t)
			id := harness.NewID()
			r.Must(t, "run", "--detach", "--bundle", b.Dir, id)
			// By a shell, since an exec may itself be given more than a child of it.
			for command, want := range map[string]string{
				expect.Setuid + " euid":  "1001",
				"/rootbox/busybox id -u": "1001",
				"/capbox/busybox grep -c 'CapPrm:.0000000000000000' /proc/self/status": "1",
			} {
				res := r.Run(t, "exec", id, "sh", "-c", command)
				if got := strings.TrimSpace(res.Stdout); got != want {
					t.Errorf("%s: got %s, want %s", command, res, want)
				}
			}
			if res := r.Run(t, "exec", id, "/rootbox/busybox", "su", "-c", "id -u"); res.Code == 0 && strings.TrimSpace(res.Stdout) != "1001" {
				t.Errorf("su: got %s, want no other user", res)
			}
		})
	}
}

// capable adds to a root a Busybox that is root by its bit, and one that has
// every capability by its file.
func capable(t *testing.T, root string) {
	t.Helper()
	path := func(name string) string { return filepath.Join(root, name, "busybox") }
	for _, name := range []string{"rootbox", "capbox"} {
		check(t, os.Mkdir(filepath.Join(root, name), 0o755))
		_, err := harness.Output(exec.Command("cp", filepath.Join(root, "bin", "busybox"), path(name)))
		check(t, err)
	}
	check(t, os.Chmod(path("rootbox"), 0o755|os.ModeSetuid|os.ModeSetgid))
	// VFS_CAP_REVISION_2 with all capabilities permitted.
	value := []byte{0, 0, 0, 2, 255, 255, 255, 255, 0, 0, 0, 0, 255, 1, 0, 0, 0, 0, 0, 0}
	check(t, unix.Setxattr(path("capbox"), "security.capability", value, 0))
}

// nodes are devices of the machine that an image brings along.
var nodes = []struct {
	name         string
	kind         uint32
	major, minor uint32
}{
	{"mem", unix.S_IFCHR, 1, 1},
	{"kmsg", unix.S_IFCHR, 1, 11},
	{"fuse", unix.S_IFCHR, 10, 229},
	{"tun", unix.S_IFCHR, 10, 200},
	{"kvm", unix.S_IFCHR, 10, 232},
	{"loop", unix.S_IFBLK, 7, 0},
	{"disk", unix.S_IFBLK, 254, 0},
	{"autofs", unix.S_IFCHR, 10, 235},
}

// TestMknod is CVE-2026-24834: nobody makes a device in the container, and the
// cgroup lets nobody open one that the image brought, as it says itself.
//
// Proves: S-108, G-15.
func TestMknod(t *testing.T) {
	for _, p := range profiles {
		t.Run(string(p.name), func(t *testing.T) {
			r := harness.NewRuntimeWith(t, p.host)
			root := victimRoot(t)
			for _, n := range nodes {
				check(t, unix.Mknod(filepath.Join(root, n.name), n.kind|0o666, int(unix.Mkdev(n.major, n.minor))))
			}
			b := victimBundle(t, root, "sleep", "1000")
			b.Spec.Linux.Resources = &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}}
			b.Write(t)
			id := harness.NewID()
			r.Must(t, "run", "--detach", "--bundle", b.Dir, id)
			for _, attempt := range []string{"mknodat char", "mknodat block", "mknodat char, a bit above", "mknodat in dev"} {
				if res := r.Run(t, "exec", id, expect.Program, "try", "exec", attempt); res.Stdout != "EPERM" {
					t.Errorf("%s: got %s, want EPERM", attempt, res)
				}
			}
			for _, n := range nodes {
				wantClosed(t, r, id, n.name)
			}
			wantDevices(t, pidOf(t, r, id))
		})
	}
}

func wantClosed(t *testing.T, r *harness.Runtime, id, node string) {
	t.Helper()
	for _, command := range []string{": </" + node, ": >>/" + node} {
		res := r.Run(t, "exec", id, "sh", "-c", command)
		if res.Code == 0 || !strings.Contains(res.Stderr, "Operation not permitted") && !strings.Contains(res.Stderr, "Permission denied") {
			t.Errorf("%s: got %s, want it not permitted", command, res)
		}
	}
}

// wantDevices compares the list of the cgroup, where the version of cgroups has
// one to read.
func wantDevices(t *testing.T, pid int) {
	t.Helper()
	list, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/devices", cgroupOf(t, pid, "devices"), "devices.list"))
	if err != nil {
		t.Logf("no list of devices to read: %v", err)
		return
	}
	var got []string
	for line := range strings.Lines(string(list)) {
		// To make a device is the filter's affair, above.
		if f := strings.Fields(line); strings.ContainsAny(f[2], "rw") && f[1] != "5:1" { // The console is a pty.
			got = append(got, f[0]+" "+f[1])
		}
	}
	slices.Sort(got)
	want := []string{"c 136:*", "c 1:3", "c 1:5", "c 1:7", "c 1:8", "c 1:9", "c 5:0", "c 5:2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}

// cgroupOf is a process's place in a hierarchy of version 1.
func cgroupOf(t *testing.T, pid int, controller string) string {
	t.Helper()
	for line := range strings.Lines(readText(t, fmt.Sprintf("/proc/%d/cgroup", pid))) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) {
			return f[2]
		}
	}
	return "no-such-hierarchy"
}
