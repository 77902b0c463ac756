//go:build vm

package hardlimits

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestFromInside: root in the container owns the files of its cgroup, as they
// are the host root's, and gets at none of them.
//
// Proves: S-131, S-136.
func TestFromInside(t *testing.T) {
	r := cgroupfs.runtime(t, hard)
	b := cgroupfs.start(t, r, "sleep 1000")
	attempts := []string{
		"echo max > /sys/fs/cgroup/memory.max",
		"echo max > /sys/fs/cgroup/memory.swap.max",
		"echo 0 > /sys/fs/cgroup/memory.oom.group",
		"echo max > /sys/fs/cgroup/pids.max",
		"echo max > /sys/fs/cgroup/cpu.max",
		"echo +memory > /sys/fs/cgroup/cgroup.subtree_control",
		"mkdir /sys/fs/cgroup/out",
		"echo $$ > /sys/fs/cgroup/../cgroup.procs",
		"mount -o remount,rw /sys/fs/cgroup",
		"mkdir /tmp/c; mount -t cgroup2 none /tmp/c && echo $$ > /tmp/c/cgroup.procs",
		"unshare -C sh -c 'echo max > /sys/fs/cgroup/memory.max'",
	}
	script := ""
	for i, attempt := range attempts {
		script += fmt.Sprintf("(%s) 2>/dev/null && echo %d went through\n", attempt, i)
	}
	if res := b.exec(script + "echo tried"); strings.TrimSpace(res.Stdout) != "tried" {
		t.Errorf("got %s, want each of %q to fail", res, attempts)
	}
	b.wantFiles(held)
	if entries, err := filepath.Glob(filepath.Join(b.dir, "*/")); err == nil {
		for _, e := range entries {
			if strings.HasSuffix(e, "/out") {
				t.Errorf("got the cgroup %s made from inside", e)
			}
		}
	}
}

// TestKilledCreate: whenever a create is killed, delete --force leaves the host
// as before; the harness looks for cgroups, mounts and processes.
//
// Proves: S-138.
func TestKilledCreate(t *testing.T) {
	r := cgroupfs.runtime(t, hard)
	for at := 100 * time.Millisecond; at < 1300*time.Millisecond; at += 150 * time.Millisecond {
		id := harness.NewID()
		run := r.Start(t, "create", "--bundle", cgroupfs.bundle(t, id, "sleep 1000").Dir, id)
		time.Sleep(at)
		run.Kill()
		run.Wait(t)
		r.Must(t, "delete", "--force", id)
		nothingIn(t, r)
	}
}

// TestHugePages: the host's are memory that memory.max does not count. With some
// set aside, a container gets none; without its files there is no container.
//
// Proves: S-005, S-131.
func TestHugePages(t *testing.T) {
	const pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	check(t, os.WriteFile(pool, []byte("4"), 0))
	t.Cleanup(func() { check(t, os.WriteFile(pool, []byte("0"), 0)) })
	if got := strings.TrimSpace(readText(t, pool)); got == "0" {
		t.Fatal("the guest has no huge pages to give")
	}
	r := cgroupfs.runtime(t, hard)
	b := cgroupfs.start(t, r, "sleep 1000")
	b.wantFiles(map[string]string{"hugetlb.2MB.max": "0", "hugetlb.2MB.rsvd.max": "0"})
	b.write("hugetlb.2MB.max", "max")
	refused(t, b.exec("true"), "sandbox.enforcement_failed", "hugetlb.2MB.max: saw ")
	without := group(t, "", map[string]string{}) // which enables cpu, memory and pids
	inner := group(t, without, nil)
	id := harness.NewID()
	res := r.Run(t, "create", "--bundle", cgroupfs.bundle(t, id, "true", at("/"+inner+"/"+id)).Dir, id)
	if res.Code == 0 {
		// libcontainer enables what it can on the way, so that it was there after all.
		find(t, r, id).wantFiles(map[string]string{"hugetlb.2MB.max": "0"})
		r.Must(t, "delete", "--force", id) // before the cgroups that it is in
	}
}
