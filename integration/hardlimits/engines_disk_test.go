//go:build vm

package hardlimits

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

func disk(mib int) string { return "--annotation=sage.sandbox.resources.disk_mb=" + strconv.Itoa(mib) }

// space is a workspace that an administrator has prepared.
func space(t *testing.T) {
	t.Helper()
	check(t, os.MkdirAll(enginesSpace, 0o777))
	check(t, os.Chmod(enginesSpace, 0o777))
	t.Cleanup(func() {
		check(t, os.RemoveAll(enginesSpace))
		xfsQuota(t, "limit -p bhard=0 ihard=0 4343")
	})
	xfsQuota(t, "project -s -p "+enginesSpace+" 4343", "limit -p bhard=4m ihard=1000 4343")
}

// door is a line of the probe's.
type door struct {
	place, way   string
	wrote, there int64
	errno        string
}

func doorsOf(t *testing.T, out string) (all []door) {
	t.Helper()
	for line := range strings.Lines(out) {
		var d door
		if _, err := fmt.Sscan(line, &d.place, &d.way, &d.wrote, &d.there, &d.errno); err != nil {
			t.Errorf("the probe printed %q: %v", line, err)
			continue
		}
		all = append(all, d)
	}
	return all
}

// namesOnly are the ways that take names and no room to speak of.
var namesOnly = []string{"files", "directories", "symlinks"}

// slack is by how much a way may stop short of what was there: by one of its
// steps, and by what the file system needs to keep track of them, which for
// pieces far from each other, or a block for each attribute, is most of it.
var slack = map[string]int64{
	"write": 64 << 10, "unlinked": 64 << 10, "fallocate": 64 << 10,
	"reflink": 320 << 10, "xattr": 1 << 20, "sparse": 4 << 20,
}

func (d door) want(t *testing.T) {
	t.Helper()
	if d.errno != "ENOSPC" && d.errno != "EDQUOT" {
		t.Errorf("%+v: want ENOSPC or EDQUOT", d)
	}
	short := slack[d.way]
	if slices.Contains(namesOnly, d.way) {
		short = d.there / 8 // their directory takes room too
	}
	if d.wrote == 0 || d.wrote > d.there || d.wrote < d.there-short {
		t.Errorf("%+v: want it within %d of what was there", d, short)
	}
}

// Attack 12: the upper directory is not empty, as docker cp came before start.
// The limit is 8 MiB, of which the workspace has 4.
func engineDisk(t *testing.T, e docker) {
	nothingHeld(t)
	space(t)
	id := e.create(t, disk(8), "--volume="+enginesSpace+":/ws", harness.BusyboxImage, "sh", "-c",
		"mkdir /deep && /doors / /deep /tmp /ws")
	e.must(t, "cp", harness.HostProbe(t, "doors"), id+":/doors")
	a := e.try(t, "start", "--attach", id).wantOK(t)
	all := doorsOf(t, a.out)
	e.must(t, "commit", id, "sage.test/doors:1")
	ways := e.byExec(t)
	all = append(all, ways...)
	if len(all) != 5*9 {
		t.Errorf("got %d lines of the probe, want 9 ways into 5 places: %s", len(all), a)
	}
	var table strings.Builder
	for _, d := range all {
		fmt.Fprintf(&table, "%-10s %-12s %9d of %9d  %s\n", d.place, d.way, d.wrote, d.there, d.errno)
		d.want(t)
		if limit := int64(4 * mebibyte); d.there > limit || d.there < limit/4 && !slices.Contains(namesOnly, d.way) {
			t.Errorf("%+v: want it below the limit, and room to try", d)
		}
	}
	t.Logf("what stopped where\n%s", table.String())
}

// byExec is the probe in an exec, in an image that has it.
func (e docker) byExec(t *testing.T) []door {
	t.Helper()
	id := e.start(t, disk(4), "sage.test/doors:1", "sleep", "1000")
	t.Cleanup(func() { e.try(t, "rmi", "--force", "sage.test/doors:1") })
	return doorsOf(t, e.try(t, "exec", id, "/doors", "/dev/shm").wantOK(t).out)
}

// Copy works before start, while it runs and after, and what it copies counts.
func engineCopy(t *testing.T, e docker) {
	nothingHeld(t)
	big := filepath.Join(harness.TempDir(t), "big")
	check(t, os.WriteFile(big, make([]byte, 6*mebibyte), 0o644))
	id := e.create(t, disk(8), harness.BusyboxImage, "sh", "-c", "echo one > /made; rm /etc/group; sleep 1000")
	e.must(t, "cp", big, id+":/first")
	e.must(t, "start", id)
	await(t, "the program has written", func() bool { return e.try(t, "exec", id, "cat", "/made").out == "one" })
	a := e.try(t, "exec", id, "sh", "-c", "dd if=/dev/zero of=/more bs=64k count=100 2>&1; stat -c %s /more")
	if n := lastNumber(a.out); n > 2*mebibyte || n < mebibyte {
		t.Errorf("beside 6 MiB that were copied in: %s, want less than 2 MiB", a)
	}
	if a := e.try(t, "cp", big, id+":/second"); a.code == 0 {
		t.Error("docker cp beyond the limit into a running container: got success")
	}
	e.must(t, "exec", id, "rm", "-f", "/more", "/second")
	small := filepath.Join(filepath.Dir(big), "small")
	check(t, os.WriteFile(small, []byte("small"), 0o644))
	e.must(t, "cp", small, id+":/small")
	if got := e.must(t, "exec", id, "cat", "/small"); got != "small" {
		t.Errorf("copied in while it ran: got %q", got)
	}
	e.must(t, "cp", id+":/made", small+".out")
	if got := readText(t, small+".out"); got != "one\n" {
		t.Errorf("copied out while it ran: got %q", got)
	}
	e.stopped(t, id, small)
}

func (e docker) stopped(t *testing.T, id, small string) {
	t.Helper()
	diff := e.must(t, "diff", id)
	for _, want := range []string{"A /first", "A /made", "A /small", "D /etc/group"} {
		if !strings.Contains(diff, want) {
			t.Errorf("docker diff: got %q, want %q", diff, want)
		}
	}
	e.must(t, "kill", id)
	e.ended(t, id)
	e.must(t, "cp", small, id+":/stopped")
	e.must(t, "cp", id+":/made", small+".again")
	e.must(t, "commit", id, "sage.test/committed:1")
	defer e.try(t, "rmi", "--force", "sage.test/committed:1")
	a := e.run(t, disk(8), "sage.test/committed:1", "sh", "-c", "cat /made /stopped; stat -c %s /first").wantOK(t)
	if a.out != "one\nsmall"+strconv.Itoa(6*mebibyte) {
		t.Errorf("of what was committed: %s", a)
	}
}

func lastNumber(out string) int {
	fields := strings.Fields(out)
	if len(fields) == 0 {
		return -1
	}
	n, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		return -1
	}
	return n
}

// The same snapshot comes back to the same project, with all that it used.
func engineRestart(t *testing.T, e docker) {
	nothingHeld(t)
	id := e.start(t, disk(8), harness.BusyboxImage, "sh", "-c", "trap 'exit 0' TERM; dd if=/dev/zero of=/f$$ bs=64k count=80 2>/dev/null; sleep 1000 & wait")
	e.grown(t, id, 5*mebibyte)
	first := project(t)
	e.must(t, "exec", id, "mv", "/f1", "/kept")
	e.must(t, "restart", id)
	e.grown(t, id, 7*mebibyte)
	if again := project(t); again != first {
		t.Errorf("project after a restart: got %s, want %s", again, first)
	}
	e.must(t, "stop", id)
	_ = sweep(t) // which must not take it
	e.must(t, "start", id)
	if again := project(t); again != first {
		t.Errorf("project after a stop and a start: got %s, want %s", again, first)
	}
	a := e.try(t, "exec", id, "sh", "-c", "rm -f /f1; dd if=/dev/zero of=/g bs=64k count=200 2>/dev/null; stat -c %s /g /kept")
	if n := lastNumber(strings.Fields(a.out + " -1")[0]); n > 3*mebibyte || n < 2*mebibyte {
		t.Errorf("beside 5 MiB of before: %s, want less than 3 MiB", a)
	}
	e.remove(t, id)
	nothingHeld(t)
}

// grown waits until the container's files have that size together.
func (e docker) grown(t *testing.T, id string, bytes int) {
	t.Helper()
	await(t, "it has written", func() bool {
		return lastNumber(e.try(t, "exec", id, "sh", "-c", "cat /f1 /kept 2>/dev/null | wc -c").out) >= bytes
	})
}

// Whatever it did, nothing of it is left.
func engineRemove(t *testing.T, e docker) {
	e.run(t, harness.BusyboxImage, "true").wantOK(t) // makes what the first one makes
	nothingHeld(t)
	before := harness.Snapshot(t, harness.Scope{})
	usage := projectsUsed(t)
	for _, script := range []string{"true", "mkdir -p /a/b/c; ln -s / /a/l; echo x > /a/b/c/f; sleep 1000", "exec sleep 1000"} {
		id := e.start(t, disk(8), harness.BusyboxImage, "sh", "-c", script)
		e.remove(t, id)
	}
	nothingHeld(t)
	for _, line := range harness.Settle(t, harness.Scope{}, before) {
		if !strings.HasPrefix(line, "+ fd") && !strings.HasPrefix(line, "- fd") {
			t.Errorf("left behind: %s", line)
		}
	}
	await(t, "no project holds anything", func() bool { return projectsUsed(t) == usage })
}

// projectsUsed are the projects of sage's that hold inodes, blocks or limits.
func projectsUsed(t *testing.T) string {
	t.Helper()
	var used strings.Builder
	for _, what := range []string{"-b", "-i"} {
		out, err := harness.Output(exec.Command("xfs_quota", "-x", "-c", "report -p -n -N "+what, quotaDir))
		check(t, err)
		for line := range strings.Lines(out) {
			f := strings.Fields(line)
			if len(f) > 4 && len(f[0]) == 7 && f[0] != "#0" && (f[1] != "0" || f[3] != "0") {
				fmt.Fprintln(&used, what, strings.Join(f[:4], " "))
			}
		}
	}
	return used.String()
}

// A volume of Docker's is a writable directory of the host's: it counts for no
// limit, so the container does not get to write there unless the host says so.
func engineVolumes(t *testing.T, e docker) {
	e.must(t, "volume", "create", "data")
	defer e.try(t, "volume", "rm", "--force", "data")
	a := e.run(t, "--volume=data:/data", harness.BusyboxImage, "sh", "-c", "echo x > /data/x")
	if a.code == 0 {
		t.Error("wrote into a volume that the host does not list")
	}
	t.Logf("a volume: %s", a)
	if found, _ := filepath.Glob(enginesDir + "/data/volumes/data/_data/x"); len(found) > 0 {
		t.Errorf("the host has %s", found)
	}
	dir := harness.TempDir(t)
	check(t, os.WriteFile(dir+"/in", []byte("in"), 0o644))
	a = e.run(t, "--volume="+dir+":/in:ro", harness.BusyboxImage, "sh", "-c", "cat /in/in; ! echo x > /in/x 2>/dev/null").wantOK(t)
	if a.out != "in" {
		t.Errorf("a read-only bind: %s", a)
	}
	// Listed, but nobody prepared it: it has no project.
	check(t, os.MkdirAll(enginesSpace, 0o777))
	defer os.RemoveAll(enginesSpace)
	a = e.run(t, "--volume="+enginesSpace+":/ws", harness.BusyboxImage, "true")
	a.wantRefused(t, "sandbox.resource_limits_unsupported", "project")
	t.Logf("a workspace of no project: %s", a.errs)
}

// Attack 16: what Docker mounts over files of the container's /etc.
func engineFiles(t *testing.T, e docker) {
	a := e.run(t, harness.BusyboxImage, "sh", "-c",
		"for f in hosts hostname resolv.conf; do [ -s /etc/$f ] || echo no $f; echo x >> /etc/$f && echo wrote $f; rm -f /etc/$f && echo removed $f; done 2>/dev/null; true").wantOK(t)
	if a.out != "" && a.out != "no resolv.conf" {
		t.Errorf("got %q, want three files that are there and read-only", a.out)
	}
}

// An image with a working directory that has files, and a volume of its own.
func engineImage(t *testing.T, e docker) {
	id := e.create(t, harness.BusyboxImage, "true")
	dir := harness.TempDir(t)
	check(t, os.WriteFile(dir+"/file", make([]byte, mebibyte), 0o644))
	e.must(t, "cp", dir, id+":/work")
	e.must(t, "commit", "--change=WORKDIR /work", id, "sage.test/workdir:1")
	defer e.try(t, "rmi", "--force", "sage.test/workdir:1")
	a := e.run(t, disk(4), "sage.test/workdir:1", "sh", "-c",
		"echo x >> file && dd if=/dev/zero of=more bs=64k count=100 2>/dev/null; stat -c %s more").wantOK(t)
	if n := lastNumber(a.out); n > 3*mebibyte || n < 2*mebibyte {
		t.Errorf("beside 1 MiB that was copied up: %s, want less than 3 MiB", a)
	}
	a = e.run(t, disk(4), "--workdir=/made/by/docker", harness.BusyboxImage, "sh", "-c",
		"dd if=/dev/zero of=more bs=64k count=100 2>/dev/null; stat -c %s more").wantOK(t)
	if n := lastNumber(a.out); n > 4*mebibyte || n < 3*mebibyte {
		t.Errorf("in a working directory that is made: %s, want less than 4 MiB", a)
	}
	e.must(t, "commit", "--change=VOLUME /work", id, "sage.test/volume:1")
	defer e.try(t, "rmi", "--force", "sage.test/volume:1")
	a = e.run(t, disk(4), "sage.test/volume:1", "sh", "-c", "stat -c %s /work/file; echo x > /work/x")
	if a.code == 0 {
		t.Errorf("wrote into an image's volume: %s", a)
	}
	t.Logf("an image with a volume: %s", a)
}
