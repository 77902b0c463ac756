//go:build kernel

package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
	"github.com/sage-sandbox/sage/integration/victim/expect"
)

// lies are bundle profiles that answer a call with success and do nothing: a
// launcher that set its own filter after this one would believe that it had.
var lies = []string{"seccomp", "prctl", "read", "execve"}

// TestAttack01 loads both layers whatever the bundle's own says, and reads how
// many there are from outside, where the bundle's profile reaches nothing.
//
// Proves: S-105.
func TestAttack01(t *testing.T) {
	zero := uint(0)
	for _, name := range lies {
		t.Run(name, func(t *testing.T) {
			layers(t, &specs.LinuxSeccomp{
				DefaultAction: specs.ActAllow,
				Syscalls:      []specs.LinuxSyscall{{Names: []string{name}, Action: specs.ActErrno, ErrnoRet: &zero}},
			}, name != "execve")
		})
	}
	for _, p := range profiles {
		t.Run("all but two denied/"+string(p.name), func(t *testing.T) { almostNothing(t, p, "execve exit_group", false) })
		t.Run("all but init's denied/"+string(p.name), func(t *testing.T) { almostNothing(t, p, initNeeds, true) })
	}
	t.Run("mount lied about", func(t *testing.T) {
		layers(t, &specs.LinuxSeccomp{
			DefaultAction: specs.ActAllow,
			Syscalls:      []specs.LinuxSyscall{{Names: []string{"mount", "umount2"}, Action: specs.ActErrno, ErrnoRet: &zero}},
		}, true)
	})
}

// initNeeds is what runc's own init, a Go program, calls on its way to the
// container's: with less it ends before that, under runc as well.
const initNeeds = "execve exit_group openat write close futex fstat getpid tgkill statx fstatfs openat2 rseq getdents64 " +
	"setuid setgid fchown read epoll_pwait epoll_ctl epoll_create1 eventfd2 rt_sigreturn rt_sigprocmask rt_sigaction " +
	"mmap munmap madvise nanosleep clone clone3 sigaltstack gettid sched_yield"

// almostNothing denies by default. The program either runs under both layers or
// not at all.
func almostNothing(t *testing.T, p profile, names string, runs bool) {
	t.Helper()
	r := harness.NewRuntimeWith(t, p.host)
	b := victimBundle(t, exitRoot(t), "/exit7")
	b.Spec.Linux.Seccomp = &specs.LinuxSeccomp{
		DefaultAction: specs.ActErrno,
		Syscalls:      []specs.LinuxSyscall{{Names: strings.Fields(names), Action: specs.ActAllow}},
	}
	b.Write(t)
	if res := r.Run(t, "run", "--bundle", b.Dir, harness.NewID()); (res.Code == 7) != runs {
		t.Errorf("got %s, want it to run: %t", res, runs)
	}
	if !runs {
		return
	}
	id := harness.NewID()
	r.Must(t, "create", "--bundle", b.Dir, id)
	wantLayers(t, "created", pidOf(t, r, id))
}

// exitRoot has a program that makes no call but the one to end.
func exitRoot(t *testing.T) string {
	t.Helper()
	root := harness.PrivateRoot(t)
	cmd := exec.Command("cc", "-nostdlib", "-static", "-O1", "-o", filepath.Join(root, "exit7"), filepath.Join("testdata", "exit7.c"))
	_, err := harness.Output(cmd)
	check(t, err)
	return root
}

// layers makes a container with the profile and looks at it between create and
// start, while it runs, and at an exec in it.
func layers(t *testing.T, profile *specs.LinuxSeccomp, runs bool) {
	t.Helper()
	for _, p := range profiles {
		t.Run(string(p.name), func(t *testing.T) {
			r := harness.NewRuntimeWith(t, p.host)
			b := victimBundle(t, victimRoot(t), "sleep", "1000")
			b.Spec.Linux.Seccomp = profile
			b.Write(t)
			id := harness.NewID()
			r.Must(t, "create", "--bundle", b.Dir, id)
			pid := pidOf(t, r, id)
			wantLayers(t, "created", pid)
			r.Run(t, "start", id)
			if runs {
				r.Must(t, "exec", id, "true")
				wantLayers(t, "started", pid)
				wantDenied(t, r, id)
			}
			afterStart(t, pid)
		})
	}
}

// afterStart: a profile may keep its own program from starting. What it must not
// get is a program without the layers.
func afterStart(t *testing.T, pid int) {
	t.Helper()
	time.Sleep(50 * time.Millisecond)
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err == nil && !strings.Contains(string(text), "\nState:\tZ") {
		wantLayers(t, "after start", pid)
	}
}

func wantDenied(t *testing.T, r *harness.Runtime, id string) {
	t.Helper()
	for attempt, want := range map[string]string{"unshare user": "EPERM", "clone3 user": "ENOSYS", "open_tree clone": "EPERM"} {
		res := r.Run(t, "exec", id, expect.Program, "try", "exec", attempt)
		if res.Stdout != want {
			t.Errorf("%s: got %s, want %s", attempt, res, want)
		}
	}
}

func pidOf(t *testing.T, r *harness.Runtime, id string) int {
	t.Helper()
	return stateOf(t, r, id).Pid
}

// wantLayers compares what the kernel says of a process's filters.
func wantLayers(t *testing.T, when string, pid int) {
	t.Helper()
	want := map[string]string{"Seccomp": "2", "Seccomp_filters": "2", "NoNewPrivs": "1"}
	if diff := cmp.Diff(want, statusOf(t, pid, "Seccomp", "Seccomp_filters", "NoNewPrivs")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// statusOf are fields of /proc/PID/status.
func statusOf(t *testing.T, pid int, fields ...string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for line := range strings.Lines(readText(t, "/proc/"+strconv.Itoa(pid)+"/status")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		for _, f := range fields {
			if f == name {
				got[f] = strings.TrimSpace(value)
			}
		}
	}
	return got
}

// TestLayer1Refused: what a bundle's profile may not hold, since it would let
// somebody else decide what a call does, or skip what the kernel does about
// speculation.
func TestLayer1Refused(t *testing.T) {
	seccomp := func(edit func(*specs.LinuxSeccomp)) func(*testing.T, *specs.Spec) {
		return func(_ *testing.T, s *specs.Spec) {
			s.Linux.Seccomp = &specs.LinuxSeccomp{DefaultAction: specs.ActAllow}
			edit(s.Linux.Seccomp)
		}
	}
	act := func(a specs.LinuxSeccompAction) func(*specs.LinuxSeccomp) {
		return func(p *specs.LinuxSeccomp) {
			p.Syscalls = []specs.LinuxSyscall{{Names: []string{"getcwd"}, Action: a}}
		}
	}
	failAll(t, []trick{
		{"listener", seccomp(func(p *specs.LinuxSeccomp) { p.ListenerPath = "/run/agent.sock" }), []string{"linux.seccomp.listenerPath"}},
		{"notify", seccomp(act(specs.ActNotify)), []string{"linux.seccomp"}},
		{"trace", seccomp(act(specs.ActTrace)), []string{"linux.seccomp"}},
		{"trace by default", seccomp(func(p *specs.LinuxSeccomp) { p.DefaultAction = specs.ActTrace }), []string{"linux.seccomp"}},
		{"no filter", func(_ *testing.T, s *specs.Spec) { s.Linux.Seccomp = nil }, nil},
		{"allow all", seccomp(func(*specs.LinuxSeccomp) {}), nil},
		{"only other architectures", seccomp(func(p *specs.LinuxSeccomp) { p.Architectures = []specs.Arch{specs.ArchX86, specs.ArchX32} }), nil},
	}, harness.SoftSage, harness.SoftAgent)
}
