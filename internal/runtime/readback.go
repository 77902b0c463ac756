package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	devices "github.com/opencontainers/cgroups/devices/config"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/audit"
	"github.com/sage-sandbox/sage/internal/doctor"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/fault"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/spec"
)

// All methods of a nil admission do nothing: there is no policy to hold.

func (a *admission) close() {
	if a != nil {
		a.survey.close()
		a.disk.close()
		a.network.close()
	}
}

// configure puts into libcontainer's configuration what no bundle can say.
func (a *admission) configure(config *configs.Config) {
	if a == nil {
		return
	}
	config.SageFilter = a.result.Filter.Bytes()
	onlyDevices(config.Cgroups.Resources, len(a.result.Spec.Linux.Resources.Devices))
	config.SageStrictCgroup = a.record.Policy.Resources.RequireHardLimits
}

// reserve is called under the host's lock, with what libcontainer is going to
// make: no cgroup of it is there yet, or it is not the container's.
func (a *admission) reserve(s *libcontainer.State) error {
	if a == nil {
		return nil
	}
	a.cgroups = s.CgroupPaths
	leaveToSampler(s.Config.Cgroups.Resources, &a.record, controllers(a.cgroups)) // nothing is written yet
	return errcode.Wrap(errcode.PermissionDenied, "check linux.cgroupsPath", checkNewCgroup(s.Config.Cgroups.Path, s.CgroupPaths))
}

// explainCreate names the field where libcontainer finds others in the cgroup
// before [admission.reserve] does. It has no type for that.
func (a *admission) explainCreate(err error) error {
	if a == nil || !strings.Contains(err.Error(), "cgroup is not empty") {
		return err
	}
	return errcode.Wrap(errcode.PermissionDenied, "check linux.cgroupsPath", fmt.Errorf("saw a cgroup that exists already, want one that is new: %w", err))
}

// checkNewCgroup: limits on a cgroup that others are in would be theirs too, and
// a guard on it would cut their network; one below theirs would live on what
// they were granted (attacks.md 13). path is that of the cgroupfs driver.
func checkNewCgroup(path string, dirs map[string]string) error {
	for _, dir := range dirs {
		var st unix.Stat_t
		switch err := unix.Lstat(dir, &st); {
		case err == nil:
			return fmt.Errorf("saw a cgroup that exists already, %s; want one that is new", dir)
		case !errors.Is(err, fs.ErrNotExist):
			return &fs.PathError{Op: "lstat", Path: dir, Err: err}
		}
	}
	if parent := filepath.Dir(filepath.Clean("/" + path)); path == "" || parent == "/" {
		return nil
	}
	for _, dir := range dirs {
		procs, err := sys.ReadFile(filepath.Join(filepath.Dir(dir), "cgroup.procs"))
		if err == nil && len(procs) > 0 {
			return errors.New("saw a cgroup below one in which there are processes, want one that is nobody's part")
		}
	}
	return nil
}

// save writes the record while libcontainer makes the container. Should this
// process be killed between the two, a container with sage's filter but without
// its record is one that nothing goes on with; see [Container.policy].
func (a *admission) save(dir string) {
	if a == nil {
		return
	}
	done := make(chan error, 1)
	go func() { done <- state.Save(dir, &a.record) }()
	a.saving = sync.OnceValue(func() error { return <-done })
}

// saved waits for [admission.save].
func (a *admission) saved() error {
	if a == nil || a.saving == nil {
		return nil
	}
	return a.saving()
}

// checkInherited refuses descriptors through which the program would reach
// what the policy closes to it (attacks.md 4).
func (a *admission) checkInherited(p *libcontainer.Process, l *Launch, terminal bool) error {
	if a == nil {
		return nil
	}
	return checkInherited(p, l, terminal)
}

// watch makes the start of ch wait for the kernel's confirmation.
func (a *admission) watch(l *Launch, c *libcontainer.Container, ch *child) {
	if a == nil {
		return
	}
	config := c.Config()
	ch.verify = func(pid int) error {
		if err := cmp.Or(fault.At("create"), a.saved(), fault.At("save")); err != nil {
			return err
		}
		serving := make(chan error, 1)
		go func() { serving <- a.serveNetwork(l, pid) }()
		err := a.readBack(pid, config.Cgroups.Devices)
		// Waited for in any case: what it makes must be there when it is undone.
		if err = cmp.Or(err, <-serving); err != nil {
			_ = audit.Append(a.record.Audit, a.event(audit.Refuse, pid, err))
			return err
		}
		if l.created {
			// Whoever lets it begin is another process, and watches it or has it watched.
			if _, err := a.planLifetime(l.Host, &config, pid); err != nil {
				return err
			}
			if err := a.divertOutput(l); err != nil {
				return err
			}
		}
		return cmp.Or(audit.Append(a.record.Audit, a.event(audit.Create, pid, nil)), fault.At("readback"))
	}
	start := a.inFreshRoot(ch.start)
	ch.start = func(p *libcontainer.Process) error { return a.explainLimits(start(p)) }
	var life *lifetime
	ch.output = a.countOutput(l)
	ch.ended = func(pid, status int) error {
		life.stop()
		return a.settle(l, pid, status)
	}
	if exec := ch.release; exec != nil {
		ch.release = func() error {
			pid, err := ch.Pid()
			if err == nil {
				err = a.beforeStart(l.Host, pid)
			}
			if err == nil {
				life, err = a.attendRun(l, &config, pid)
			}
			if err == nil {
				err = a.guardOutput(l, ch.output, pid)
			}
			if err := cmp.Or(err, fault.At("release")); err != nil {
				return err
			}
			return exec()
		}
	}
}

// beforeStart is for run, where nobody but a hook has had the time to attach a
// network.
func (a *admission) beforeStart(h *Host, pid int) error {
	if s := a.network.serving; s.Proxy != nil {
		return cmp.Or(fault.At("proxy"), auditStart(&a.record, pid, s.DialsFrom))
	}
	return h.beforeStart(&a.record, pid, a.attached())
}

// event is for after [admission.saved], which settles the digest.
func (a *admission) event(kind audit.Kind, pid int, err error) audit.Event {
	e := audit.Event{
		Event: kind, ID: a.record.ID, Pid: pid,
		Profile: a.record.Policy.Profile, Digest: a.record.Digest,
	}
	if err != nil {
		e.Code, e.Message = string(errcode.Of(err)), err.Error()
		return e
	}
	e.UID = &a.record.Posture.UID
	detail := map[string]any{
		"policy": a.record.Policy, "posture": a.record.Posture, "changes": a.result.Changes,
	}
	if a.limits != nil {
		detail["limits"] = a.limits
	}
	if a.disk != nil {
		detail["disk"] = a.disk.audited()
	}
	if n := a.record.Network; n != nil && n.Guard {
		detail["network"] = a.network.serving
	}
	e.Detail = detail
	return e
}

// readBack asks the kernel what holds for the waiting init, and whether the
// mounts are of what was judged. Any difference is an error.
func (a *admission) readBack(pid int, rules []*devices.Rule) error {
	mounts := make(chan error, 1)
	go func() { mounts <- a.checkMounts(pid) }()
	err := cmp.Or(checkPosture(a.record.Posture, pid), <-mounts, checkDevices(a.cgroups, rules), a.checkLimits(pid), a.checkDisk(pid))
	return errcode.Wrap(errcode.EnforcementFailed, "read back", err)
}

// checkPosture compares a process that waits for its program.
func checkPosture(want spec.Posture, pid int) error {
	got, err := doctor.CollectWaiting(pid)
	if err != nil {
		return err
	}
	var problems []string
	for _, d := range doctor.Compare(want, got, true) {
		problems = append(problems, fmt.Sprintf("%s: saw %s, want %s", d.Field, d.Got, d.Want))
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

// checkMounts judges the mounts again now that they are made: that every bind
// is of the inode that was judged, and lies where it was judged to.
func (a *admission) checkMounts(pid int) error {
	root, _, err := openPath("/proc/" + strconv.Itoa(pid) + "/root")
	if err != nil {
		return err
	}
	defer root.Close()
	mounts, err := readMounts("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	if err != nil {
		return err
	}
	for i := range a.pins {
		if a.replaced(i) {
			continue
		}
		if err := a.checkBind(root, i); err != nil {
			return err
		}
	}
	return cmp.Or(a.checkEgressMounts(root), judgeMounts(mounts, a.result.Spec, a.record.Policy))
}

// replaced says whether there is no bind any more where the bundle's mount i
// was: an engine's shared memory gives way to the container's own.
func (a *admission) replaced(i int) bool {
	for _, m := range slices.Backward(a.result.Spec.Mounts) {
		if path.Clean(m.Destination) == a.facts.Mounts[i].Destination {
			return !isBind(&m) || a.disk.made(m.Source) || m.Source == a.facts.Egress.ResolvConf
		}
	}
	return false
}

// checkBind compares what is mounted with what was looked at.
func (a *admission) checkBind(root *os.File, i int) error {
	dest := a.facts.Mounts[i].Destination
	f, err := openIn(root, dest)
	if err != nil {
		return err
	}
	defer f.Close()
	var got, want unix.Stat_t
	if err := errors.Join(unix.Fstat(int(f.Fd()), &got), unix.Fstat(int(a.pins[i].Fd()), &want)); err != nil {
		return err
	}
	if got.Dev != want.Dev || got.Ino != want.Ino {
		return fmt.Errorf("mounts[%d]: at %s is not what its source was when it was judged", i, dest)
	}
	return nil
}
