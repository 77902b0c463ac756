package runtime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/audit"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sampler"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/spec"
)

// A container that has a timeout, or limits that the kernel does not hold, is
// watched from before its program begins until it has ended: by this process
// where it waits (run), by our shim in its own process, and otherwise by a pair
// of processes that outlive the command (create and start, run --detach).

// lifetime is the watch of a container that this process waits for. All methods
// of a nil one do nothing.
type lifetime struct{ watch *sampler.Watch }

func (l *lifetime) stop() {
	if l != nil && l.watch != nil {
		l.watch.Stop()
	}
}

// planLifetime writes down what is to be watched of the container whose waiting
// init is pid, and gives nil where nothing is.
func (a *admission) planLifetime(h *Host, config *configs.Config, pid int) (*sampler.Plan, error) {
	p, err := newPlan(config, &a.record, pid, a.cgroups)
	if err != nil || !p.Needed() {
		return nil, errcode.Wrap(errcode.WatchFailed, "plan the watch", err)
	}
	return p, p.Save(h.stateDir(a.record.ID))
}

func (h *Host) stateDir(id string) string { return filepath.Join(h.Root, id) }

// attendRun is called right before the program of run begins.
func (a *admission) attendRun(l *Launch, config *configs.Config, pid int) (*lifetime, error) {
	p, err := a.planLifetime(l.Host, config, pid)
	if err != nil || p == nil {
		return nil, err
	}
	if l.detached() {
		return nil, l.Host.spawnPair(l.ID)
	}
	dir := l.Host.stateDir(l.ID)
	w, err := sampler.Begin(p, dir)
	if err == nil {
		err = sampler.Claim(dir)
	}
	return &lifetime{w}, errcode.Wrap(errcode.WatchFailed, "watch the container", err)
}

// attendStart is called right before the program of a created container begins.
func (h *Host) attendStart(record *state.Record) error {
	dir := h.stateDir(record.ID)
	p, err := sampler.Load(dir)
	if err != nil || p == nil {
		return errcode.Wrap(errcode.WatchFailed, "read the plan of the watch", err)
	}
	// Our shim has begun already: it is there longer than this command.
	if claimed, err := sampler.Claimed(dir); err != nil || claimed {
		return errcode.Wrap(errcode.WatchFailed, "look for who watches", err)
	}
	return h.spawnPair(record.ID)
}

// WatchVerb is the hidden command that [Host.Watch] is behind.
const WatchVerb = "watch"

func (h *Host) spawnPair(id string) error {
	return sampler.Spawn(func(role string) []string {
		return []string{os.Args[0], "--root", h.Root, WatchVerb, role, id}
	})
}

// Watch is one process of the pair that watches container id.
func (h *Host) Watch(role, id string) error {
	if role != sampler.RoleSampler && role != sampler.RoleGuard {
		return fmt.Errorf("role: saw %q, want %s or %s", role, sampler.RoleSampler, sampler.RoleGuard)
	}
	if id == "" || id != filepath.Base(id) {
		return errEmptyID
	}
	dir := h.stateDir(id)
	record, err := state.Load(dir)
	if err != nil {
		return err
	}
	if err := sampler.Serve(role, dir); err != nil || role == sampler.RoleGuard {
		return err
	}
	e := sampler.Unseen(dir)
	return audit.Append(record.Audit, audit.Ended(record.ID, record.Digest, 0, e))
}

// checkWatched refuses to go on with a container that nothing watches any more,
// and ends it: whoever did was killed (S-152).
func (h *Host) checkWatched(record *state.Record) error {
	dir := h.stateDir(record.ID)
	p, err := sampler.Load(dir)
	if err != nil || p == nil {
		return errcode.Wrap(errcode.WatchFailed, "read the plan of the watch", err)
	}
	claimed, err := sampler.Claimed(dir)
	if err == nil && !claimed {
		sampler.Abandon(p, dir)
		err = errors.New("saw no process that watches the container, and ended it; want whoever did to live as long: make the container again")
	}
	return errcode.Wrap(errcode.WatchFailed, "look for who watches", err)
}

// settle says how a container that this process waited for has ended, while its
// cgroup is there, and kills what is left in that (S-136, S-137).
func (a *admission) settle(l *Launch, pid, status int) error {
	dir := l.Host.stateDir(l.ID)
	err := sampler.Clear(a.cgroups)
	e := sampler.Settle(dir, a.cgroups, status)
	if e.Reason != state.Exited && e.Reason != state.Signaled {
		logrus.Warnf("container %s was ended: %s: %s", l.ID, e.Reason, e.Detail)
	}
	auditErr := audit.Append(a.record.Audit, audit.Ended(l.ID, a.record.Digest, pid, e))
	if l.Keep { // else its state is about to go
		auditErr = errors.Join(auditErr, state.SaveEnding(dir, e))
	}
	if auditErr != nil {
		logrus.Warn(auditErr)
	}
	return err
}

// unseen says how a container ended that nothing of sage's watched, as the kernel
// holds its limits, or waited for, as an engine's own shim does: the cgroup knows,
// until it goes. With memory.oom.group a kill for want of memory is the end of all
// of it, so that the status does not matter. It gives nil where no reason is known.
func (c *Container) unseen() *state.Ending {
	record, err := c.policy()
	if err != nil || record == nil || !record.Policy.Resources.RequireHardLimits {
		return nil
	}
	saved, err := c.c.State()
	if err != nil || !sampler.OOMKilled(saved.CgroupPaths) {
		return nil
	}
	return &state.Ending{Reason: state.OOMKilled, Detail: "the kernel killed all of it for want of memory", Time: time.Now().UTC()}
}

// untold is for the audit of a container that is about to be deleted: the end of
// one that stopped, if nobody has told it.
func (h *Host) untold(record *state.Record) *state.Ending {
	if record == nil || record.Audit == "" {
		return nil
	}
	c, err := h.Load(record.ID)
	if err != nil {
		return nil
	}
	if status, err := c.c.Status(); err != nil || status != libcontainer.Stopped {
		return nil
	}
	dir := h.stateDir(record.ID)
	told, err := state.LoadEnding(dir)
	if p, watched := sampler.Load(dir); err != nil || told != nil || watched != nil || p != nil {
		return nil
	}
	return c.unseen()
}

func newPlan(config *configs.Config, record *state.Record, pid int, dirs map[string]string) (*sampler.Plan, error) {
	init, err := sampler.Identify(pid)
	if err != nil {
		return nil, err
	}
	p := &sampler.Plan{ID: record.ID, Init: init, Cgroups: dirs, Seconds: record.Policy.TimeoutSeconds}
	if r := record.Policy.Resources; !r.RequireHardLimits {
		p.Limits = sampler.Unheld(dirs, sampler.Limits{
			MemoryBytes: r.MemoryBytes, Processes: r.MaxProcesses, CPUQuota: r.CPUQuota,
		})
		err = addPlaces(p, config, r)
	}
	return p, err
}

// addPlaces measures what the container can write on the host's disks. Without
// such a place there is nothing to sample: a tmpfs counts as memory.
func addPlaces(p *sampler.Plan, config *configs.Config, r spec.Resources) error {
	places, err := writable(config)
	if err != nil || len(places) == 0 || r.DiskBytes <= 0 {
		return err
	}
	for _, place := range places {
		if !place.own {
			if place.Base, err = sampler.Measure(place.Path); err != nil {
				return err
			}
		}
		p.Places = append(p.Places, place.Place)
	}
	// One name for each block of 4 KiB at most, as with a project quota.
	p.Limits.DiskBytes, p.Limits.Entries = r.DiskBytes, max(r.DiskBytes/4096, 1)
	return nil
}

// place is one that the container can write.
type place struct {
	sampler.Place
	own bool // holds nothing but what the container wrote, before a restart too
}

// writable lists them, without those that lie in another.
func writable(config *configs.Config) ([]place, error) {
	var all []place
	if !config.Readonlyfs {
		root, err := writableRoot(config.Rootfs)
		if err != nil {
			return nil, err
		}
		all = append(all, root)
	}
	for _, m := range config.Mounts {
		if m.IsBind() && m.Flags&unix.MS_RDONLY == 0 {
			source, err := filepath.EvalSymlinks(m.Source)
			if err != nil {
				return nil, err
			}
			all = append(all, place{Place: sampler.Place{Path: source}})
		}
	}
	return outermost(all), nil
}

func outermost(all []place) (out []place) {
	for i, p := range all {
		if !slices.ContainsFunc(all[:i], func(o place) bool { return isBelow(p.Path, o.Path) }) &&
			!slices.ContainsFunc(all[i+1:], func(o place) bool { return o.Path != p.Path && isBelow(p.Path, o.Path) }) {
			out = append(out, p)
		}
	}
	return out
}

// writableRoot is the upper directory of an overlay, which holds what the
// container wrote and no more, or else the whole tree.
func writableRoot(root string) (place, error) {
	mounts, err := readMounts("/proc/self/mountinfo")
	if err != nil {
		return place{}, err
	}
	for _, m := range slices.Backward(mounts) {
		if m.path != root {
			continue
		}
		for option := range strings.SplitSeq(m.super, ",") {
			if upper, ok := strings.CutPrefix(option, "upperdir="); ok && m.fstype == "overlay" && filepath.IsAbs(upper) {
				return place{Place: sampler.Place{Path: unescape.Replace(upper)}, own: true}, nil
			}
		}
		break
	}
	return place{Place: sampler.Place{Path: root}}, nil
}
