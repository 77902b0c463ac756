//go:build kernel

package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sage-sandbox/sage/internal/sys"
)

// footprint is all that a check could leave behind on this host.
type footprint struct {
	Children, Descriptors, Cgroups []string
	Mounts, Self                   string
	Namespaces                     map[string]string
}

func take(t *testing.T) footprint {
	t.Helper()
	f := footprint{Children: children(t), Mounts: read(t, "/proc/self/mountinfo"), Namespaces: map[string]string{}}
	f.Descriptors, _ = filepath.Glob("/proc/self/fd/*")
	f.Cgroups, _ = filepath.Glob("/sys/fs/cgroup/*/" + groupName + "*")
	for _, kind := range namespaceKinds {
		id, err := namespace(os.DirFS("/proc/self"), kind)
		if err != nil {
			t.Fatal(err)
		}
		f.Namespaces[kind] = id
	}
	self, err := readStatus(os.DirFS("/proc/self"))
	if err != nil {
		t.Fatal(err)
	}
	if self.noNewPrivs != 0 || self.seccomp != 0 {
		f.Self = "under a filter"
	}
	return f
}

// TestCheck wants of this machine what sage needs to be worked on; hard limits
// are what some cannot have.
//
// Proves: S-115, S-116.
func TestCheck(t *testing.T) {
	Check(t.Context(), Host{}) // so that the Go runtime has the descriptors it wants
	before := take(t)
	findings := Check(t.Context(), Host{CgroupRoot: "/sys/fs/cgroup/sage"})
	for _, f := range findings {
		t.Logf("%-24s %-5t %-12s %s", f.Name, f.OK, f.Level, f.Seen)
		wanted := f.Level == LevelPolicy || f.Level == LevelEgress || f.Name == "clone into cgroup" || f.Name == "cgroup.kill"
		if wanted && !f.OK {
			t.Errorf("%s: %s; %s", f.Name, f.Seen, f.Do)
		}
		if f.Seen == "" || f.OK && f.Do != "" || !f.OK && f.Do == "" {
			t.Errorf("%s says too little or too much: %+v", f.Name, f)
		}
	}
	if diff := cmp.Diff(before, take(t)); diff != "" {
		t.Errorf("left behind (-before +after):\n%s", diff)
	}
}

// TestCheckAgrees: the next one finds the same.
func TestCheckAgrees(t *testing.T) {
	first := Check(t.Context(), Host{})
	if diff := cmp.Diff(first, Check(t.Context(), Host{})); diff != "" {
		t.Errorf("second check (-first +second):\n%s", diff)
	}
}

// TestCheckSweeps: a check that was killed leaves a cgroup, for the next one.
func TestCheckSweeps(t *testing.T) {
	mount, err := unifiedMount()
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(mount, groupName+"4194304-1")
	mine := filepath.Join(mount, groupName+"1-1") // of a process that lives
	for _, dir := range []string{left, mine} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
	}
	Check(t.Context(), Host{})
	if _, err := os.Stat(left); err == nil {
		t.Errorf("%s is still there", left)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("%s is not there any more: %v", mine, err)
	}
}

// TestCheckByEffect: under conditions in which things fail, they are found to.
func TestCheckByEffect(t *testing.T) {
	user := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1001, Gid: 1001}}
	tests := []struct {
		name    string
		attr    *syscall.SysProcAttr
		prepare func() error
		want    map[string]string // what is seen of what is not ok; "" is ok
	}{
		{"root", nil, nothing, map[string]string{"seccomp": "", "seccomp read-back": "", "posture": "", "namespaces": "", "pidfd": ""}},
		{"user", user, nothing, map[string]string{
			"openat2": "", "pidfd": "", "seccomp": "",
			"mount_setattr":     "open_tree: operation not permitted",
			"namespaces":        "operation not permitted",
			"seccomp read-back": "permission denied",
			"posture":           "layer2_sha256",
			"clone into cgroup": "permission denied",
			"cgroup BPF":        "operation not permitted",
		}},
		{"under a filter", nil, func() error { return sys.LoadFilter(allow) }, map[string]string{
			"seccomp": "", "namespaces": "layer2_sha256",
			"seccomp read-back": "ptrace(PTRACE_SECCOMP_GET_FILTER): permission denied",
			"posture":           "layer2_sha256: ptrace(PTRACE_SECCOMP_GET_FILTER): permission denied",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			findings := check(t, tt.attr, tt.prepare)
			for name, want := range tt.want {
				f := findings[name]
				if f.OK != (want == "") || !strings.Contains(f.Seen, want) {
					t.Errorf("%s: got %+v, want %q seen", name, f, want)
				}
			}
		})
	}
}
