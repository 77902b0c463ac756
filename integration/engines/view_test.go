//go:build engines

package engines

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
)

// view is what can be seen of a machine: each line names one thing.
type view []string

// hostTraces is everything on the host that bears the ring's name, after all
// of it should be gone. What has no name (bridges, iptables rules, sysctls,
// mounts, state at fixed paths) was the capsule's own and went with it; the
// host itself is not compared, since others work on it meanwhile.
func hostTraces(rec record) view {
	var v view
	v.add("cgroup", holding(cgroupsBelow("/sys/fs/cgroup"), rec.Name))
	v.add("mount", holding(mountPoints(), rec.Name))
	v.add("process", holding(processes(), rec.Name))
	for _, pattern := range []string{filepath.Join(os.TempDir(), "*"), filepath.Join(recordsDir(), "*")} {
		paths, _ := filepath.Glob(pattern)
		v.add("file", holding(paths, rec.Name))
	}
	return v
}

// holding keeps the lines that hold the phrase.
func holding(lines []string, phrase string) []string {
	return slices.DeleteFunc(lines, func(s string) bool { return !strings.Contains(s, phrase) })
}

// capsuleView is taken inside, where everything is the ring's.
func capsuleView() view {
	var v view
	v.add("process", processes())
	v.add("mount", mountPoints())
	v.add("link", linkNames())
	for _, root := range cgroupRoots() {
		dirs := cgroupsBelow(filepath.Join(root, theRing.name))
		v.add("cgroup", dirs[min(1, len(dirs)):])
	}
	v.add("runtime state", runtimeStates())
	return v
}

func (v *view) add(kind string, names []string) {
	for _, n := range names {
		*v = append(*v, kind+" "+n)
	}
}

// more lists what later views have and this one has not.
func (v view) more(later view) view {
	return slices.DeleteFunc(slices.Clone(later), func(s string) bool { return slices.Contains(v, s) })
}

// awaitSame looks again until nothing is more than before; things that end in
// the background (a veth going away) get a while.
func (v view) awaitSame(look func() view) view {
	var left view
	poll(15*time.Second, func() bool {
		left = v.more(look())
		return len(left) == 0
	})
	return left
}

func reportLeft(where string, left view) int {
	for _, l := range left {
		fmt.Fprintf(os.Stderr, "engines: left on the %s: %s\n", where, l)
	}
	return min(len(left), 1)
}

// linkNames leaves the bridges out: engines keep those on any host.
func linkNames() []string {
	links, _ := netlink.LinkList()
	var names []string
	for _, l := range links {
		if l.Type() != "bridge" {
			names = append(names, l.Attrs().Name)
		}
	}
	return names
}

// processes are all of the capsule but its init, the tests and what the tests
// run at this moment to look.
func processes() []string {
	var found []string
	paths, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range paths {
		pid := filepath.Base(p)
		line, err := os.ReadFile(p + "/cmdline")
		if err == nil && pid != "1" && pid != fmt.Sprint(os.Getpid()) {
			found = append(found, pid+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

func mountPoints() []string {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	var points []string
	for line := range strings.Lines(string(text)) {
		points = append(points, strings.Fields(line)[4])
	}
	return points
}

// runtimeStates are the state folders of single containers, at the roots that
// each engine gives to its OCI runtime, and the bundles of containerd.
func runtimeStates() []string {
	var found []string
	for _, pattern := range []string{
		"/run/containerd/runc/*/*", "/run/containerd/sage/*/*", "/run/sage/*", "/run/containerd/s/*", "/run/runc/*", "/run/netns/*",
		filepath.Join(theRing.dir, "docker/exec/runtime-*/*/*"),
		filepath.Join(theRing.dir, "docker/exec/netns/*"),
		filepath.Join(theRing.dir, "containerd/state/io.containerd.runtime.v2.task/*/*"),
	} {
		paths, _ := filepath.Glob(pattern)
		found = append(found, paths...)
	}
	return found
}
