//go:build kernel

package policy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
	"github.com/sage-sandbox/sage/integration/victim/expect"
)

// victimRoot is a root of the test's own with the victim in it. Not a mount: a
// folder of the host in the container closes AF_UNIX.
func victimRoot(t *testing.T) string {
	t.Helper()
	root := harness.PrivateRoot(t)
	expect.Build(t, root)
	return root
}

// victimBundle runs the victim as root, without what an engine would mask.
func victimBundle(t *testing.T, root string, args ...string) *harness.Bundle {
	t.Helper()
	return harness.NewBundle(t, func(s *specs.Spec) {
		s.Root.Path, s.Root.Readonly = root, false
		s.Mounts = append(s.Mounts, scratch())
		s.Process.Args = args
		bare(s)
	})
}

// scratch is where the victim makes its files.
func scratch() specs.Mount {
	return specs.Mount{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=1777"}}
}

// bare is a bundle that asks for no protection, and for every right.
func bare(s *specs.Spec) {
	s.Linux.MaskedPaths, s.Linux.ReadonlyPaths, s.Linux.Seccomp = nil, nil, nil
	s.Process.NoNewPrivileges, s.Process.Rlimits = false, nil
	all := allCapabilities
	s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: all, Effective: all, Permitted: all, Inheritable: all, Ambient: all}
	for i := range s.Mounts {
		if strings.HasPrefix(s.Mounts[i].Destination, "/sys") {
			s.Mounts[i].Options = slices.DeleteFunc(s.Mounts[i].Options, func(o string) bool { return o == "ro" })
		}
	}
}

// allCapabilities but SYS_RESOURCE, which root on some machines has not got.
var allCapabilities = func() []string {
	names := strings.Fields("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE " +
		"NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE " +
		"SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP " +
		"MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE")
	for i := range names {
		names[i] = "CAP_" + names[i]
	}
	return names
}()

// TestVictim tries everything in every way that a program can be started: as
// the container's first, by exec, from another thread, and as a daemon.
//
// Proves: S-101, S-102, S-103, S-105, S-106, S-108, S-142, G-02, G-21.
func TestVictim(t *testing.T) {
	for _, p := range profiles {
		t.Run(string(p.name), func(t *testing.T) {
			r := harness.NewRuntimeWith(t, p.host)
			root := victimRoot(t)
			var all []expect.Outcome
			for _, context := range []string{"init", "thread", "daemon"} {
				res := r.Run(t, "run", "--bundle", victimBundle(t, root, expect.Program, context).Dir, harness.NewID())
				ran(t, res)
				all = append(all, report(t, res)...)
			}
			all = append(all, report(t, execIn(t, r, victimBundle(t, root, "sleep", "1000"), expect.Program, "exec"))...)
			judge(t, expect.Trial{Profile: p.name, Contexts: []string{"init", "exec", "thread", "daemon"}}, all)
		})
	}
}

// execIn runs a program in a container whose own only waits.
func execIn(t *testing.T, r *harness.Runtime, b *harness.Bundle, args ...string) harness.Result {
	t.Helper()
	id := harness.NewID()
	r.Must(t, "run", "--detach", "--bundle", b.Dir, id)
	res := r.Run(t, append([]string{"exec", id}, args...)...)
	r.Must(t, "delete", "--force", id)
	return res
}

func report(t *testing.T, res harness.Result) []expect.Outcome {
	t.Helper()
	all, err := expect.Parse(res.Stdout)
	if err != nil {
		t.Fatalf("%v; %s", err, res)
	}
	return all
}

// judge prints the table once, since it is what a reader wants to see, and
// fails for each difference.
func judge(t *testing.T, trial expect.Trial, outcomes []expect.Outcome) {
	t.Helper()
	table, problems := trial.Judge(outcomes)
	t.Logf("%d attempts; = is as wanted\n%s", len(outcomes), table)
	for _, p := range problems {
		t.Error(p)
	}
}

// TestVictimUnconfined is the same under runc with every right: what the table
// says to be denied has to come through here, or a row would prove nothing.
func TestVictimUnconfined(t *testing.T) {
	r := runcPeer(t)
	root := victimRoot(t)
	b := victimBundle(t, root, expect.Program, "init")
	b.Spec.Linux.Resources = &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}}
	b.Spec.Linux.Devices = hostDevices(t)
	b.Write(t)
	judge(t, expect.Trial{Profile: expect.Unconfined, Contexts: []string{"init"}},
		report(t, r.Run(t, "run", "--bundle", b.Dir, harness.NewID())))
	if !hasI386(t) {
		return
	}
	b = victimBundle(t, root, expect.Program, "init", expect.I386)
	for _, p := range expect.JudgeI386(expect.Unconfined, report(t, r.Run(t, "run", "--bundle", b.Dir, harness.NewID()))) {
		t.Error(p)
	}
}

func runcPeer(t *testing.T) *harness.Runtime {
	t.Helper()
	r := &harness.Runtime{Bin: harness.Peer(t, "runc"), Root: filepath.Join(harness.TempDir(t), "root")}
	harness.Watch(t, harness.Scope{})
	return r
}

// hostDevices are those of the victim's table that this host has, under the
// numbers that it gave them.
func hostDevices(t *testing.T) []specs.LinuxDevice {
	t.Helper()
	var list []specs.LinuxDevice
	for _, row := range expect.Rows() {
		name, ok := strings.CutPrefix(row.Attempt, "write ")
		var st unix.Stat_t
		if !ok || !strings.HasPrefix(name, "/dev/") || unix.Stat(name, &st) != nil {
			continue
		}
		kind := "c"
		if st.Mode&unix.S_IFMT == unix.S_IFBLK {
			kind = "b"
		}
		list = append(list, specs.LinuxDevice{
			Path: name, Type: kind, Major: int64(unix.Major(st.Rdev)), Minor: int64(unix.Minor(st.Rdev)),
		})
	}
	return list
}

// hasI386 tells whether the kernel runs 32-bit programs at all.
func hasI386(t *testing.T) bool {
	t.Helper()
	_, err := os.Stat("/proc/sys/abi/vsyscall32")
	return err == nil
}

// TestVictimI386: a 32-bit program is killed, whatever it tries and whoever
// starts it. As the container's own it takes the container along.
//
// Proves: G-21.
func TestVictimI386(t *testing.T) {
	if !hasI386(t) {
		t.Skip("this kernel runs no 32-bit programs")
	}
	for _, p := range profiles {
		t.Run(string(p.name), func(t *testing.T) {
			r := harness.NewRuntimeWith(t, p.host)
			root := victimRoot(t)
			for context, res := range map[string]harness.Result{
				"init": r.Run(t, "run", "--bundle", victimBundle(t, root, expect.Program, "init", expect.I386).Dir, harness.NewID()),
				"exec": execIn(t, r, victimBundle(t, root, "sleep", "1000"), expect.Program, "exec", expect.I386),
			} {
				for _, problem := range expect.JudgeI386(p.name, report(t, res)) {
					t.Errorf("%s: %s", context, problem)
				}
			}
			res := r.Run(t, "run", "--bundle", victimBundle(t, root, expect.I386, "names").Dir, harness.NewID())
			if want := 128 + int(unix.SIGSYS); res.Code != want {
				t.Errorf("an i386 program as init: got %s, want exit status %d", res, want)
			}
		})
	}
}

// TestVictimOfAnotherUser: what a filter denies does not depend on who asks, so
// the calls are the same for a user without any right to begin with.
func TestVictimOfAnotherUser(t *testing.T) {
	for _, p := range profiles {
		t.Run(string(p.name), func(t *testing.T) {
			r := harness.NewRuntimeWith(t, p.host)
			b := victimBundle(t, victimRoot(t), expect.Program, "init")
			b.Spec.Process.User = specs.User{UID: 1001, GID: 1001}
			b.Write(t)
			judge(t, expect.Trial{Profile: p.name, Contexts: []string{"init"}, Only: byFilter},
				report(t, r.Run(t, "run", "--bundle", b.Dir, harness.NewID())))
		})
	}
}

// TestVictimInUserNamespace: in one that the bundle itself asked for its root has
// rights of its own, which a filter does not look at.
//
// Proves: S-100, S-101.
func TestVictimInUserNamespace(t *testing.T) {
	for _, p := range profiles {
		t.Run(string(p.name), func(t *testing.T) {
			r := harness.NewRuntimeWith(t, p.host)
			b := victimBundle(t, victimRoot(t), expect.Program, "init")
			mapUsers(b.Spec)
			b.Write(t)
			judge(t, expect.Trial{Profile: p.name, Contexts: []string{"init"}, Only: byFilter},
				report(t, r.Run(t, "run", "--bundle", b.Dir, harness.NewID())))
		})
	}
}

// byFilter are the rows that a filter alone decides; for the others the kernel
// looks at who asks, or at files.
func byFilter(attempt string) bool {
	i := slices.IndexFunc(expect.Rows(), func(row expect.Row) bool { return row.Attempt == attempt })
	want := expect.Rows()[i].Sage
	return !strings.HasPrefix(attempt, "allowed") && !slices.Contains(byKernel, attempt) &&
		!strings.Contains(attempt, "/") && !strings.HasPrefix(attempt, "make ") &&
		slices.Contains([]string{"EPERM", "ENOSYS", "SIGSYS", "ENOPROTOOPT", "EOPNOTSUPP"}, want)
}

// byKernel are rows of those errors without a filter.
var byKernel = []string{
	"setgroups", "setgid", "setuid", "chown", "capset", "ambient capability", "securebits", "real time", "core files",
	"open files", "setuid program", "low port", "loopback server", "raise a link",
}

// TestVictimIsInit: the container's first process makes the calls itself, which
// the kernel spares many signals.
func TestVictimIsInit(t *testing.T) {
	r := harness.NewRuntimeWith(t, harness.SoftSage)
	root := victimRoot(t)
	for _, c := range []struct {
		attempt, said string
		code          int
	}{
		{"mount tmpfs", "EPERM", 0},
		{"unshare user", "EPERM", 0},
		{"clone3 user", "ENOSYS", 0},
		{"chroot", "EPERM", 0},
		{"x32 mount", "ENOSYS", 0},
		{"int80 mount", "", 128 + int(unix.SIGSYS)},
	} {
		t.Run(c.attempt, func(t *testing.T) {
			res := r.Run(t, "run", "--bundle", victimBundle(t, root, expect.Program, "try", "init", c.attempt).Dir, harness.NewID())
			if res.Stdout != c.said || res.Code != c.code {
				t.Errorf("got %s, want %q and exit status %d", res, c.said, c.code)
			}
		})
	}
}
