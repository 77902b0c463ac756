package runtime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs2"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/quota/readback"
	"github.com/sage-sandbox/sage/spec"
)

// heldLimits are those of one container's cgroup, as the kernel shows them.
type heldLimits struct {
	readback.Limits

	// Above are lower limits of the cgroups that it is in.
	Above []readback.Lower `json:"above,omitempty"`
	lines []readback.Line
}

// limited is a cgroup to read back.
type limited struct {
	dir  string
	unit string // of systemd, "" where it did not make the cgroup
	pid  int    // of init, which is to be in it
	want readback.Limits
	// forgets says that systemd may have written memory.oom.group anew: before
	// version 253 it knows of none for a scope, and puts 0 there when it reloads.
	forgets bool
	// raw are the files that libcontainer was told to write as they are.
	raw map[string]string
}

// checkLimits reads the limits back from the cgroup of the waiting init, once
// libcontainer has written them (S-131).
func (a *admission) checkLimits(pid int) error {
	s := a.result.Spec
	if !a.record.Policy.Resources.RequireHardLimits {
		return nil
	}
	g := limited{dir: a.cgroups[""], pid: pid, want: expected(s.Linux.Resources), raw: s.Linux.Resources.Unified}
	if a.facts.SystemdCgroup || spec.IsSystemdPath(s.Linux.CgroupsPath) {
		g.unit = filepath.Base(g.dir)
	}
	held, err := g.check()
	if err == nil {
		held.Above, err = g.above(held.Limits)
	}
	a.limits = held
	return err
}

// checkLimitsAgain does so at start and after an update, for a container that
// exists. An update has changed what libcontainer saved of it, so that this is
// what the files are to hold.
func checkLimitsAgain(record *state.Record, s *libcontainer.State) error {
	if g := limitedBy(record, s); g != nil {
		_, err := g.check()
		return err
	}
	return nil
}

// checkLimitFiles does so for an exec, and leaves systemd out: to ask it takes
// longer than all the rest, and what it would write later is not in force now.
func checkLimitFiles(record *state.Record, s *libcontainer.State) error {
	g := limitedBy(record, s)
	if g == nil {
		return nil
	}
	g.unit = ""
	_, err := g.check()
	return err
}

// limitedBy is nil for a container without hard limits.
func limitedBy(record *state.Record, s *libcontainer.State) *limited {
	if !record.Policy.Resources.RequireHardLimits {
		return nil
	}
	r := inForce(s.Config.Cgroups.Resources)
	g := &limited{dir: s.CgroupPaths[""], pid: s.InitProcessPid, want: expected(r), raw: r.Unified}
	if s.Config.Cgroups.Systemd {
		g.unit, g.forgets = filepath.Base(g.dir), true
	}
	return g
}

func expected(r *specs.LinuxResources) readback.Limits {
	return readback.Expected(r, int64(os.Getpagesize()))
}

func (g *limited) check() (*heldLimits, error) {
	held, err := g.read()
	if err == nil && g.forgets && !held.OOMGroup {
		held, err = g.remind()
	}
	if err == nil {
		err = readback.Differences(held.lines)
	}
	if err != nil {
		return nil, errcode.Wrap(errcode.EnforcementFailed, "read back the limits in "+g.dir, err)
	}
	return held, nil
}

// remind writes what systemd has forgotten, and reads again. Until then the
// limit held, but the container would not have died as a whole.
func (g *limited) remind() (*heldLimits, error) {
	f, err := os.OpenFile(filepath.Join(g.dir, "memory.oom.group"), os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString("1")
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return g.read()
}

// read gives the lines for what there is to compare, like or unlike.
func (g *limited) read() (*heldLimits, error) {
	if err := errors.Join(g.want.Complete(), g.holdsInit()); err != nil {
		return nil, err
	}
	dir, err := openGroup(g.dir)
	if err != nil {
		return nil, err
	}
	defer dir.close()
	held := &heldLimits{}
	if held.Limits, err = readback.Read(dir); err != nil {
		return nil, err
	}
	pages, err := readback.HugePages(dir, g.raw)
	if err != nil {
		return nil, err
	}
	held.lines = append(readback.Compare(g.want, held.Limits), pages...)
	if g.unit != "" {
		properties, err := unitProperties(g.unit)
		if err != nil {
			return nil, err
		}
		held.lines = append(held.lines, readback.CompareUnit(g.want, properties, int64(os.Getpagesize()))...)
	}
	return held, nil
}

func (g *limited) above(l readback.Limits) ([]readback.Lower, error) {
	root, err := openGroup(fs2.UnifiedMountpoint)
	if err != nil {
		return nil, err
	}
	defer root.close()
	return readback.Above(root, strings.TrimPrefix(g.dir, fs2.UnifiedMountpoint), l)
}

// holdsInit: limits are worth nothing on a cgroup that the container is not in.
func (g *limited) holdsInit() error {
	in, err := cgroups.ParseCgroupFile("/proc/" + strconv.Itoa(g.pid) + "/cgroup")
	if err != nil {
		return err
	}
	if got := filepath.Join(fs2.UnifiedMountpoint, in[""]); got != g.dir {
		return fmt.Errorf("cgroup of process %d: saw %s, want %s", g.pid, got, g.dir)
	}
	return nil
}

// explainLimits gives libcontainer's failure to make or to fill the cgroup a
// code, where hard limits hang on it. It has no type for that.
func (a *admission) explainLimits(err error) error {
	if err == nil || !a.record.Policy.Resources.RequireHardLimits {
		return err
	}
	for _, phrase := range []string{"unable to apply cgroup configuration", "error setting cgroup config"} {
		if strings.Contains(err.Error(), phrase) {
			return errcode.Wrap(errcode.EnforcementFailed, "write the limits", err)
		}
	}
	return err
}
