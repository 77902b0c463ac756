//go:build kernel

package guard

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestCost prints what a guard costs at a start. It fails only at several times
// that (0.9 to 1.5 ms): a busy machine is no mistake of the guard's.
func TestCost(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// As on a host with other containers: the kernel's hooks are in place.
	newGroup(t).guard(t, Options{BridgePort: 3128, Loopback: true, Transparent: true})
	for name, o := range map[string]Options{
		"none": {}, "agent": {BridgePort: 3128, Loopback: true, Transparent: true}, "shared": {BridgePort: 3128, Shared: true},
	} {
		var clock, cpu []time.Duration
		for range 40 {
			begin, used := time.Now(), threadTime(t)
			once(t, o)
			clock, cpu = append(clock, time.Since(begin)), append(cpu, threadTime(t)-used)
		}
		t.Logf("%s: Attach and Verify take %v (median; quickest %v) of processor time, %v by the clock", name, median(cpu), cpu[0], median(clock))
		// In the guest the processor is emulated, some thirty times slower.
		if os.Getenv("SAGE_VM") == "" && cpu[0] > 5*time.Millisecond {
			t.Errorf("%s: %v, want less than 5 ms", name, cpu[0])
		}
	}
}

// once is what a start does, on a cgroup of its own that is gone afterwards.
func once(t *testing.T, o Options) {
	t.Helper()
	dir, err := os.MkdirTemp(cgroups(t), "sage-guard-test") //nolint:usetesting // a cgroup lies in a tree of the kernel's
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Attach(int(file.Fd()), o)
	if err == nil {
		err = Verify(int(file.Fd()), r)
	}
	if err := errors.Join(err, file.Close(), os.Remove(dir)); err != nil {
		t.Fatal(err)
	}
}

func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
