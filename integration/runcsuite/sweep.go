package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// host is what the suite uses outside its scratch folder, under fixed or
// random names, and would find in its way in the second run.
type host struct {
	netns  []string
	dummy  bool
	files  []string
	cgroup bool
}

const (
	netnsDir    = "/run/netns"
	suiteCgroup = "runc-cgroups-integration-test"
)

// suiteFiles are patterns of what checkpoint tests write outside TMPDIR, and do
// not remove if they fail; a folder comes after what is in it.
var suiteFiles = []string{"/tmp/runc-criu-*", "/etc/criu/default.conf", "/etc/criu"}

// The suite names network namespaces after mktemp; others here do not.
var suiteNetns = regexp.MustCompile(`^tmp\.[[:alnum:]]{10}$`)

func lookAtHost() host {
	return host{netns: readNames(netnsDir), dummy: exists("/sys/class/net/dummy0"), files: matching(suiteFiles), cgroup: len(suiteCgroups()) > 0}
}

// sweep removes what an aborted or failed test left, and says what it was.
// Everything is known to be the suite's: it lies in the scratch folder, or
// carries its TMPDIR, or has a name of the suite's that was not there before.
// The context is one that an interrupt does not cancel.
func sweep(ctx context.Context, c contender, scratch string, before host) []string {
	var done []string
	done = append(done, deleteContainers(ctx, c, scratch)...)
	done = append(done, killOwn(scratch)...)
	done = append(done, unmountBelow(scratch)...)
	done = append(done, detachLoops(ctx, scratch)...)
	done = append(done, before.restore(ctx)...)
	// Best effort: the whole scratch folder goes at the end, where an error counts.
	for _, name := range readNames(scratch) {
		_ = os.RemoveAll(filepath.Join(scratch, name))
	}
	return done
}

// deleteContainers finds state folders as setup_bundle makes them:
// <bats run>/runc.XXXXXX/state/<id>.
func deleteContainers(ctx context.Context, c contender, scratch string) []string {
	var done []string
	found, _ := filepath.Glob(filepath.Join(scratch, "*", "runc.*", "state", "*"))
	for _, dir := range found {
		root, id := filepath.Split(dir)
		quiet(ctx, c.path, "--root", filepath.Clean(root), "delete", "--force", id)
		done = append(done, "container "+id)
	}
	return done
}

func killOwn(scratch string) []string {
	var done []string
	for _, pid := range ownProcesses(scratch) {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			done = append(done, "process "+strconv.Itoa(pid))
		}
	}
	return done
}

// ownProcesses go by their environment: the suite's helpers leave its session
// and process group, and reparent to init.
func ownProcesses(scratch string) []int {
	mark := []byte("\x00" + tmpdirVar(scratch) + "\x00")
	var pids []int
	for _, name := range readNames("/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, _ := os.ReadFile(filepath.Join("/proc", name, "environ"))
		if bytes.Contains(append([]byte{0}, env...), mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func unmountBelow(scratch string) []string {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	var done []string
	points := mountsBelow(string(mounts), scratch)
	// The last mounted lies on top.
	slices.Reverse(points)
	for _, point := range points {
		if syscall.Unmount(point, syscall.MNT_DETACH) == nil {
			done = append(done, "mount "+filepath.Base(point))
		}
	}
	return done
}

func mountsBelow(mountinfo, dir string) []string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		if point := unescape.Replace(f[4]); strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	return points
}

// detachLoops frees loop devices whose (already unlinked) file was the suite's.
func detachLoops(ctx context.Context, scratch string) []string {
	var done []string
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range files {
		backing, _ := os.ReadFile(f)
		if strings.HasPrefix(string(backing), scratch+"/") {
			dev := "/dev/" + strings.Split(f, "/")[3]
			quiet(ctx, "losetup", "--detach", dev)
			done = append(done, "loop device "+dev)
		}
	}
	return done
}

// restore removes what has a name of the suite's and was not there before.
func (before host) restore(ctx context.Context) []string {
	var done []string
	now := lookAtHost()
	for _, ns := range now.netns {
		if suiteNetns.MatchString(ns) && !slices.Contains(before.netns, ns) {
			quiet(ctx, "ip", "netns", "delete", ns)
			done = append(done, "network namespace "+ns)
		}
	}
	if now.dummy && !before.dummy {
		quiet(ctx, "ip", "link", "delete", "dummy0")
		done = append(done, "interface dummy0")
	}
	for _, f := range now.files {
		if !slices.Contains(before.files, f) && os.Remove(f) == nil {
			done = append(done, f)
		}
	}
	return append(done, before.removeCgroups()...)
}

// removeCgroups reports only cgroups below the suite's common parent: runc
// leaves that parent behind by design.
func (before host) removeCgroups() []string {
	if before.cgroup {
		return nil
	}
	var done []string
	for _, top := range suiteCgroups() {
		for _, dir := range deepestFirst(top) {
			emptyCgroup(dir)
			if syscall.Rmdir(dir) == nil && dir != top {
				done = append(done, "cgroup "+dir)
			}
		}
	}
	return done
}

func suiteCgroups() []string {
	v1, _ := filepath.Glob("/sys/fs/cgroup/*/" + suiteCgroup)
	v2, _ := filepath.Glob("/sys/fs/cgroup/" + suiteCgroup)
	return append(v1, v2...)
}

func deepestFirst(top string) []string {
	var dirs []string
	_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	slices.Reverse(dirs)
	return dirs
}

// emptyCgroup kills what is in a cgroup of the suite's and waits a little: the
// kernel refuses to remove one with a dying process in it.
func emptyCgroup(dir string) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 20 {
		procs, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if len(procs) == 0 {
			return
		}
		for p := range strings.FieldsSeq(string(procs)) {
			if pid, err := strconv.Atoi(p); err == nil && pid > 1 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		<-tick.C
	}
}

// quiet runs a cleaning command whose failure the next look shows anyway.
func quiet(ctx context.Context, name string, args ...string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := exec.CommandContext(ctx, name, args...).Run(); err != nil {
		fmt.Fprintf(os.Stderr, "runcsuite: %s: %v\n", name, err)
	}
}

func readNames(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func matching(patterns []string) []string {
	var found []string
	for _, p := range patterns {
		paths, _ := filepath.Glob(p)
		found = append(found, paths...)
	}
	return found
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
