//go:build kernel

package doctor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/spec"
)

// allow is another filter than probeFilter.
var allow = []byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f}

func digest(filter []byte) string {
	sum := sha256.Sum256(filter)
	return hex.EncodeToString(sum[:])
}

// twoFilters loads what a container has: sage's filter, then the bundle's.
func twoFilters() error {
	return errors.Join(sys.LoadFilter(probeFilter()), sys.LoadFilter(allow))
}

// TestCollect looks at a process that was made with every field known.
func TestCollect(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "child-sleep")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  namespaceFlags,
		Credential:  &syscall.Credential{Uid: 1001, Gid: 1002, Groups: []uint32{1000, 7}},
		AmbientCaps: []uintptr{unix.CAP_KILL},
	}
	start(t, cmd, func() error {
		return errors.Join(dropBoundingBut(unix.CAP_KILL, unix.CAP_CHOWN), twoFilters())
	})
	pid := cmd.Process.Pid
	if err := os.WriteFile("/proc/"+tgid(cmd)+"/oom_score_adj", []byte("321"), 0); err != nil {
		t.Fatal(err)
	}
	got, err := Collect(pid)
	if err != nil {
		t.Fatal(err)
	}
	kill := []string{"CAP_KILL"}
	want := spec.Posture{
		NoNewPrivs: true, Seccomp: 2, Filters: 2, Layer2: digest(probeFilter()),
		Bounding: []string{"CAP_CHOWN", "CAP_KILL"}, Effective: kill, Permitted: kill, Inheritable: kill, Ambient: kill,
		UID: 1001, GID: 1002, Groups: []uint32{7, 1000},
		OwnNamespaces: []string{"cgroup", "ipc", "mnt", "net", "pid", "uts"},
		Rlimits:       map[string]spec.Rlimit{"RLIMIT_FSIZE": {Soft: fileSize, Hard: 2 * fileSize}},
		OOMScoreAdj:   321,
		AppArmor:      got.AppArmor, // the host's affair, see TestReadAppArmor
	}
	if diff := Compare(want, got, true); diff != nil {
		t.Errorf("differences: %v", diff)
	}
	want.Rlimits = got.Rlimits
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("posture (-want +got):\n%s", diff)
	}
	if len(got.Rlimits) != len(limitNames) {
		t.Errorf("%d limits, want all %d", len(got.Rlimits), len(limitNames))
	}
}

// TestCollectOrdinary: nothing is taken for enforced that is not.
func TestCollectOrdinary(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "child-sleep")
	start(t, cmd, nothing)
	got, err := Collect(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	got.Rlimits = nil
	all := capNames(1<<(unix.CAP_LAST_CAP+1) - 1)
	if len(got.Bounding) == 0 || slices.ContainsFunc(got.Bounding, func(name string) bool { return !slices.Contains(all, name) }) {
		t.Errorf("bounding set %v, want root's", got.Bounding)
	}
	got.Bounding, got.Permitted, got.Effective, got.OOMScoreAdj, got.AppArmor = nil, nil, nil, 0, ""
	want := spec.Posture{Inheritable: []string{}, Ambient: []string{}, Groups: got.Groups, OwnNamespaces: []string{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("posture (-want +got):\n%s", diff)
	}
}

func TestCollectEnded(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "child-sleep")
	start(t, cmd, twoFilters)
	_ = cmd.Process.Kill()
	// A zombie until the end of the test reaps it.
	if err := await("a zombie", func() bool {
		_, err := Collect(cmd.Process.Pid)
		return errors.Is(err, ErrEnded)
	}); err != nil {
		t.Error(err)
	}
}

// TestCollectTwoIDs: one that can go back to root is no user but root.
func TestCollectTwoIDs(t *testing.T) {
	sys.OnDyingThread(func() {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 1001, 1001, 0); errno != 0 {
			t.Error(errno)
		}
		got, err := readStatus(os.DirFS("/proc/thread-self"))
		if err == nil {
			t.Errorf("got user %d, want an error", got.uid)
		}
	})
}

func TestThreads(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "child-threads")
	start(t, cmd, func() error { return sys.LoadFilter(allow) })
	threads, err := Threads(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int]int{}
	for _, thread := range threads {
		counts[thread.Posture.Filters]++
		if thread.Posture.Layer2 != digest(allow) {
			t.Errorf("thread %d: layer 2 is %s, want %s", thread.TID, thread.Posture.Layer2, digest(allow))
		}
	}
	if counts[2] != 1 || counts[1] < 2 || len(counts) != 2 {
		t.Errorf("threads by number of filters: %v, want one with 2 and the others with 1", counts)
	}
	if threads[0].TID != cmd.Process.Pid {
		t.Errorf("the first thread is %d, want the main one, %d", threads[0].TID, cmd.Process.Pid)
	}
	if _, err := Threads(1 << 22); err == nil {
		t.Error("of nobody got threads, want an error")
	}
}
