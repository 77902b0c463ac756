package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Host is what a runtime can leave on a machine, each as sorted lines of text,
// so that a difference reads well in a failure.
type Host struct {
	Mounts     []string
	Cgroups    []string
	Processes  []string
	Namespaces []string
	Loops      []string
	FDs        []string
	State      []string
}

// Scope says which state roots a Snapshot looks into.
type Scope struct{ Roots []string }

// Snapshot reads the host as it is now. Only what belongs to this test process
// counts: other tests use the machine at the same time.
func Snapshot(tb testing.TB, scope Scope) Host {
	tb.Helper()
	var h Host
	for _, part := range []struct {
		into *[]string
		read func() ([]string, error)
	}{
		{&h.Mounts, readMounts},
		{&h.Cgroups, func() ([]string, error) { return Cgroups(Mark()) }},
		{&h.Processes, readDescendants},
		{&h.Namespaces, readNetworks},
		{&h.Loops, readLoops},
		{&h.FDs, readFDs},
		{&h.State, func() ([]string, error) { return readState(scope.Roots) }},
	} {
		lines, err := part.read()
		if err != nil {
			tb.Fatalf("harness: snapshot: %v", err)
		}
		slices.Sort(lines)
		*part.into = lines
	}
	return h
}

// Diff lists what b has and a has not (+) and the other way round (-).
func Diff(a, b Host) []string {
	var lines []string
	add := func(what string, was, is []string) {
		for _, l := range minus(is, was) {
			lines = append(lines, "+ "+what+" "+l)
		}
		for _, l := range minus(was, is) {
			lines = append(lines, "- "+what+" "+l)
		}
	}
	add("mount", slices.DeleteFunc(slices.Clone(a.Mounts), isDetached), b.Mounts)
	add("cgroup", a.Cgroups, b.Cgroups)
	add("process", a.Processes, b.Processes)
	lines = slices.DeleteFunc(lines, isEnding)
	add("netns", a.Namespaces, b.Namespaces)
	add("loop", a.Loops, b.Loops)
	add("fd", a.FDs, b.FDs)
	add("state", a.State, b.State)
	return lines
}

// isEnding says that what is gone is a helper of a container that had ended
// before, and only had not been collected yet.
func isEnding(line string) bool {
	return strings.HasPrefix(line, "- process") && strings.Contains(line, "(sage-")
}

// minus needs b sorted, as Snapshot leaves it.
func minus(a, b []string) []string {
	var out []string
	for _, s := range a {
		if _, found := slices.BinarySearch(b, s); !found {
			out = append(out, s)
		}
	}
	return out
}

// Watch fails the test if the host at its end is not as it is now.
func Watch(tb testing.TB, scope Scope) {
	tb.Helper()
	before := Snapshot(tb, scope)
	tb.Cleanup(func() {
		for _, line := range Settle(tb, scope, before) {
			tb.Errorf("left behind: %s", line)
		}
	})
}

// Settle returns what differs from before, once nothing does or after five
// seconds: a killed process takes a moment to go.
func Settle(tb testing.TB, scope Scope, before Host) []string {
	tb.Helper()
	end := time.Now().Add(5 * time.Second)
	for {
		diff := Diff(before, Snapshot(tb, scope))
		if len(diff) == 0 || time.Now().After(end) {
			return diff
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func readMounts() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		// Fields 5 on; before them are numbers that change with every mount.
		f := strings.SplitN(strings.TrimSpace(line), " ", 5)
		if len(f) == 5 && isOurs(f[4]) {
			lines = append(lines, f[4])
		}
	}
	return lines, nil
}

// isDetached recognises somebody else's mount, copied into our namespace, that
// went when the folder under it was removed. No runtime did that.
func isDetached(line string) bool {
	point, _, _ := strings.Cut(line, " ")
	_, err := os.Lstat(point)
	return errors.Is(err, fs.ErrNotExist)
}

// In a mount namespace of our own every mount is ours, else those whose line
// names the scratch folder or a container of this process.
func isOurs(line string) bool {
	return os.Getenv(isolatedEnv) != "" || strings.Contains(line, Mark())
}

// Cgroups returns the cgroup directories of every hierarchy, v1 and v2, whose
// path holds mark.
func Cgroups(mark string) ([]string, error) {
	var found []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			// Other people's cgroups go away while we walk.
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
				return nil
			}
			return err
		}
		if d.IsDir() && strings.Contains(path, mark) {
			found = append(found, path)
		}
		return nil
	})
	return found, err
}

// removeCgroups says what it had to remove, since that is a failure of a test
// whose own message may be far up.
func removeCgroups(mark string) error {
	dirs, err := Cgroups(mark)
	slices.Reverse(dirs)
	for _, dir := range dirs {
		// A cgroup made by mistake may still hold dying processes.
		for range 100 {
			if e := unix.Rmdir(dir); e == nil || e == unix.ENOENT {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if len(dirs) > 0 {
		err = errors.Join(err, fmt.Errorf("%d cgroups were left and have been removed, the last is %s", len(dirs), dirs[0]))
	}
	return err
}

// Zombies count too: a runtime that leaves one did not wait for a child.
func readDescendants() ([]string, error) {
	procs, err := Descendants()
	var lines []string
	for _, p := range procs {
		lines = append(lines, p.String())
	}
	return lines, err
}

// readNetworks lists the network namespaces that this process or a descendant
// lives in. One kept by a bind mount is in Mounts.
func readNetworks() ([]string, error) {
	procs, err := Descendants()
	seen := map[string]bool{}
	for _, p := range append(procs, Process{PID: os.Getpid()}) {
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.PID)); err == nil {
			seen[ns] = true
		}
	}
	var lines []string
	for ns := range seen {
		lines = append(lines, ns)
	}
	return lines, err
}

// A loop device is no process's and outlives all of them, so it is told by the
// file behind it.
func readLoops() ([]string, error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	var lines []string
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && strings.Contains(string(data), Mark()) {
			lines = append(lines, f+" "+strings.TrimSpace(string(data)))
		}
	}
	return lines, err
}

// readFDs leaves out the poller and the process handles, which the Go runtime
// opens when it likes, and the directory being read.
func readFDs() ([]string, error) {
	children.Lock() // The reaper opens files.
	defer children.Unlock()
	entries, err := os.ReadDir("/proc/self/fd")
	var lines []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(target, "anon_inode:[event") || strings.HasPrefix(target, "anon_inode:[pidfd]") {
			continue
		}
		lines = append(lines, e.Name()+" "+target)
	}
	return lines, err
}

// readState walks deep: a file left in a folder that stays is a leak as well.
func readState(roots []string) ([]string, error) {
	var lines []string
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err == nil && path != root {
				lines = append(lines, path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return lines, nil
}
