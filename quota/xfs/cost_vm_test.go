//go:build vm

package xfs_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// callsOf counts the system calls of a role, less those of a Go program that
// only opens the mount and looks for a container that is not there.
func callsOf(t *testing.T, role, dir string) int {
	t.Helper()
	out, err := exec.Command("strace", "-f", "-qq", "-o", dir+".trace", self(t), "child", role, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	trace, err := os.ReadFile(dir + ".trace")
	check(t, err)
	check(t, os.Remove(dir+".trace"))
	t.Log(names(string(trace)))
	return count(string(trace))
}

// count begins where the mount is opened and leaves out what Go's scheduler and
// memory need at its own times, and its clock where the kernel has none in the vDSO.
func count(trace string) (n int) {
	for _, times := range names(trace) {
		n += times
	}
	return n
}

func names(trace string) map[string]int {
	found := map[string]int{}
	_, trace, _ = strings.Cut(trace, quotaMount+`"`)
	for line := range strings.Lines(trace) {
		_, call, _ := strings.Cut(line, " ")
		call = strings.TrimSpace(call)
		name, _, _ := strings.Cut(call, "(")
		switch name {
		case "clock_gettime", "futex", "madvise", "mmap", "munmap", "nanosleep", "rt_sigreturn", "getpid", "tgkill", "sched_yield", "epoll_pwait",
			"clone", "clone3", "sigaltstack", "rt_sigprocmask", "gettid", "exit_group", "set_robust_list", "pread64", "sched_getaffinity", "epoll_create1", "epoll_ctl", "eventfd2", "rseq", "prctl", "rt_sigaction":
			continue
		}
		if strings.HasPrefix(call, "+++") || strings.HasPrefix(call, "---") || strings.HasPrefix(call, "<...") {
			continue
		}
		found[name]++
	}
	return found
}

// It shows the cost that issue 4 allows: 60 calls for an empty upper directory,
// the read back included, and 3 more for each file of one that is not, once.
func TestCost(t *testing.T) {
	p, m := newPlace(t), mount(t)
	first := newPlace(t) // makes the registry, once in a mount's life
	check(t, m.Release(assign(t, m, first.request(4*mib))))
	empty := callsOf(t, "assign", p.dir)
	for range 2 { // one in eight creates sweeps, too
		more := newPlace(t)
		empty = min(empty, callsOf(t, "assign", more.dir))
	}
	t.Logf("empty upper: %d calls", empty)
	// What reads back in the container's mounts: its root directory opened and
	// closed, three calls for each of three places and three for a file in the
	// first, and the limits; and the two files of the administrator's names.
	const readBack = 2 + 3*3 + 3 + 1 + 2
	if empty+readBack > 60 {
		t.Errorf("got %d calls and %d to read back, want 60 at most", empty, readBack)
	}
	q := newPlace(t)
	const files = 2000 // strace in an emulated machine takes 6 ms a call
	for d := range 10 {
		dir := fmt.Sprint(q.upper(), "/d", d)
		check(t, os.Mkdir(dir, 0o755))
		for i := range files / 10 {
			check(t, touch(dir+"/"+strconv.Itoa(i)))
		}
	}
	big := place{q.dir, q.owner}
	got := callsOf(t, "assign-big", big.dir)
	t.Logf("%d files in 10 directories: %d calls", files, got)
	if most := 60 - readBack + 3*files + 7*10; got > most { // a directory is also read
		t.Errorf("got %d calls, want %d at most", got, most)
	}
}
