//go:build vm

package hardlimits

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// others are what a competing writer puts into the files: more than was
// granted, nothing at all, and less.
var others = []struct{ file, value string }{
	{"memory.max", "max"},
	{"memory.max", "1073745920"}, // a page more
	{"memory.max", "1073737728"}, // a page less
	{"memory.swap.max", "max"},
	{"memory.swap.max", "4096"},
	{"memory.oom.group", "0"},
	{"pids.max", "max"},
	{"pids.max", "65"},
	{"cpu.max", "max"},
	{"cpu.max", "100001 100000"},
	{"cpu.max", "50000 50000"}, // the same share, but not what was written
	{"cpu.max.burst", "1000"},
}

// TestWriterAtCreate: somebody writes another value between libcontainer's write
// and the reading back, which is where a hook of the host's runs. The create
// fails and leaves nothing.
//
// Proves: S-131, S-138.
func TestWriterAtCreate(t *testing.T) {
	for _, other := range others {
		t.Run(other.file+" "+other.value, func(t *testing.T) {
			script := fmt.Sprintf("#!/bin/sh\npid=$(sed 's/.*\"pid\":\\([0-9]*\\).*/\\1/')\necho '%s' > %s$(sed 's/^0:://' /proc/$pid/cgroup)/%s\n", other.value, cgroups, other.file)
			hook := filepath.Join(harness.TempDir(t), "writer")
			check(t, os.WriteFile(hook, []byte(script), 0o755))
			r := cgroupfs.runtime(t, hard+"hooks: ["+hook+"]\n")
			id := harness.NewID()
			b := cgroupfs.bundle(t, id, "true", func(s *specs.Spec) {
				s.Hooks = &specs.Hooks{CreateRuntime: []specs.Hook{{Path: hook}}}
			})
			res := r.Run(t, "create", "--bundle", b.Dir, id)
			refused(t, res, "sandbox.enforcement_failed", other.file+": saw ", ", want "+held[other.file])
			nothingIn(t, r)
		})
	}
}

// TestWriterLater: once the container is made, another value stops start, exec
// and attest, and each goes on when it is back.
//
// Proves: S-013, S-131.
func TestWriterLater(t *testing.T) {
	r := cgroupfs.runtime(t, hard)
	b := cgroupfs.create(t, r)
	for _, other := range others {
		b.write(other.file, other.value)
		refused(t, r.Run(t, "start", b.id), "sandbox.enforcement_failed", other.file+": saw ")
		b.restore(other.file)
	}
	r.Must(t, "start", b.id)
	for _, other := range others {
		b.write(other.file, other.value)
		refused(t, b.exec("true"), "sandbox.enforcement_failed", other.file+": saw ")
		if a := b.attest(); a.OK {
			t.Errorf("%s %s: got attest ok, want it not", other.file, other.value)
		} else if _, ok := a.line(t, other.file); ok {
			t.Errorf("%s %s: got its line ok, want it not", other.file, other.value)
		}
		b.restore(other.file)
	}
	if res := b.exec("true"); res.Code != 0 || !b.attest().OK {
		t.Errorf("with everything as it was: got %s, want it to go on", res)
	}
}

func (b *box) restore(file string) {
	b.t.Helper()
	if file == "cpu.max.burst" {
		b.write(file, "0")
		return
	}
	b.write(file, held[file])
}

// TestWriterRaces: a writer that never stops does not get a container started
// with its value in the moment of the start.
//
// Proves: S-131.
func TestWriterRaces(t *testing.T) {
	id := harness.NewID()
	file := filepath.Join(cgroups, id, "memory.max")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(file, []byte("max"), 0) // it is not there yet, mostly
				time.Sleep(100 * time.Microsecond)
			}
		}
	}()
	r := cgroupfs.runtime(t, hard)
	for range 5 {
		res := r.Run(t, "run", "--bundle", cgroupfs.bundle(t, id, "true").Dir, id)
		refused(t, res, "sandbox.enforcement_failed", "memory.max: saw max")
		nothingIn(t, r)
	}
	close(stop)
	<-done
	if res := r.Run(t, "run", "--bundle", cgroupfs.bundle(t, id, "true").Dir, id); res.Code != 0 {
		t.Errorf("without the writer: got %s, want it run", res)
	}
}

// TestReadOnly: where the files cannot be written there is no container, and a
// file that cannot be written alone is no better.
//
// Proves: S-131, S-138.
func TestReadOnly(t *testing.T) {
	r := cgroupfs.runtime(t, hard)
	id := harness.NewID()
	b := cgroupfs.bundle(t, id, "true")
	var st unix.Statfs_t
	check(t, unix.Statfs(cgroups, &st))
	flags := unix.MS_REMOUNT | unix.MS_BIND | uintptr(st.Flags)&(unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
	check(t, unix.Mount("", cgroups, "", flags|unix.MS_RDONLY, ""))
	res := r.Run(t, "create", "--bundle", b.Dir, id)
	check(t, unix.Mount("", cgroups, "", flags, ""))
	refused(t, res, "sandbox.enforcement_failed", "read-only file system")
	nothingIn(t, r)
}

// TestMoved: limits on a cgroup that init has been taken out of are nobody's.
//
// Proves: S-013.
func TestMoved(t *testing.T) {
	other := group(t, "", nil)
	r := cgroupfs.runtime(t, hard)
	b := cgroupfs.create(t, r)
	check(t, os.WriteFile(filepath.Join(cgroups, other, "cgroup.procs"), fmt.Append(nil, b.pid), 0))
	refused(t, r.Run(t, "start", b.id), "sandbox.enforcement_failed", "cgroup of process", "/"+other)
	r.Must(t, "delete", "--force", b.id)
}
