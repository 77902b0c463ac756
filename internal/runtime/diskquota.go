package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/opencontainers/runc/libcontainer"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/quota"
	"github.com/sage-sandbox/sage/quota/xfs"
)

func (d *diskPlan) close() {
	if d != nil {
		d.mount.Close()
	}
}

// plannedDisk is where a container that this process makes has its disk. It is
// what the state says, and need not be read from there.
func (a *admission) plannedDisk() *state.Disk {
	if a == nil {
		return nil
	}
	return a.record.Disk
}

// toSave is what is kept of the plan; nil of none.
func (d *diskPlan) toSave() *state.Disk {
	if d == nil {
		return nil
	}
	return &d.saved
}

// audited is what was read back.
func (d *diskPlan) audited() map[string]any {
	out := map[string]any{"mount": d.saved.Mount, "places": d.saved.Places, "workspaces": d.saved.Workspaces}
	if d.managed {
		out["project"], out["limit"] = d.record.Project, d.record.Limit
	}
	return out
}

// made says whether a mount's source is a directory of the container's own,
// which no bundle named.
func (d *diskPlan) made(source string) bool {
	return d != nil && d.managed && isBelow(source, d.mount.Dir(d.request.Token, ""))
}

// assignDisk reserves a project, limits it and tags what is to count. It is
// called once the state directory is reserved, before libcontainer makes
// anything; on an error nothing of it is left.
func (a *admission) assignDisk() error {
	if a == nil || a.disk == nil || !a.disk.managed {
		return nil
	}
	d := a.disk
	var err error
	if d.request.Named, err = namedProjects(); err == nil {
		d.record, err = d.mount.Assign(d.request)
	}
	return err
}

// namedProjects are those that the host's administrator has given names to.
func namedProjects() (quota.Named, error) {
	var texts [2]string
	for i, file := range []string{"/etc/projects", "/etc/projid"} {
		data, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		texts[i] = string(data)
	}
	named, err := quota.ParseNamed(texts[0], texts[1])
	return named, errcode.Wrap(errcode.ConfigInvalid, "read the host's projects", err)
}

// checkDisk reads back by effect, in the mounts of the waiting init.
func (a *admission) checkDisk(pid int) error {
	if a == nil || a.disk == nil {
		return nil
	}
	d := a.disk
	if d.managed {
		if err := d.mount.ReadBack(d.record.Project, d.record.Limit); err != nil {
			return err
		}
	}
	return checkPlaces(d.mount, &d.saved, d.record.Project, pid)
}

// checkDiskAgain does so at start.
func checkDiskAgain(record *state.Record, pid int) error {
	return checkHeld(record, func(m *xfs.Mount, id quota.ProjectID) error {
		return checkPlaces(m, record.Disk, id, pid)
	})
}

// checkDiskLimit is for exec: what is where has not changed since start, but an
// administrator may have changed a limit, or remounted without quotas.
func checkDiskLimit(record *state.Record) error {
	return checkHeld(record, func(m *xfs.Mount, _ quota.ProjectID) error {
		for _, w := range record.Disk.Workspaces {
			if err := m.ReadBack(quota.ProjectID(w.Project), limitOf(w)); err != nil {
				return err
			}
		}
		return nil
	})
}

func checkHeld(record *state.Record, more func(*xfs.Mount, quota.ProjectID) error) error {
	if record.Disk == nil {
		return nil
	}
	m, err := xfs.Open(record.Disk.Mount)
	if err != nil {
		return err
	}
	defer m.Close()
	var r xfs.Record
	if len(record.Disk.Places) > 0 {
		if r, err = m.CheckOwned(xfs.Owner{ID: record.ID, Root: record.Disk.Root}); err != nil {
			return err
		}
	}
	return more(m, r.Project)
}

func limitOf(w state.Workspace) quota.Limit { return quota.Limit{Bytes: w.Bytes, Inodes: w.Inodes} }

func checkPlaces(m *xfs.Mount, d *state.Disk, id quota.ProjectID, pid int) error {
	root, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/root", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open the container's root", err)
	}
	defer unix.Close(root)
	for i, place := range d.Places {
		// A file in one of them: that of the root file system, if it is writable.
		if err := m.CheckEffect(root, place, id, i == 0); err != nil {
			return err
		}
	}
	for _, w := range d.Workspaces {
		want := xfs.Workspace{Project: quota.ProjectID(w.Project), Limit: limitOf(w)}
		if err := m.CheckWorkspace(root, w.Place, want); err != nil {
			return err
		}
	}
	return nil
}

// inFreshRoot starts the container from a thread with mounts of its own, where
// an overlay on the quota mount lies over the bundle's root file system. The
// container's init gets a copy of those mounts, and they are gone with the last
// of the two: nothing of it is ever in the host's mounts, also after kill -9.
func (a *admission) inFreshRoot(start func(*libcontainer.Process) error) func(*libcontainer.Process) error {
	if a == nil || a.disk == nil || !a.disk.fresh {
		return start
	}
	return func(p *libcontainer.Process) (err error) {
		sys.OnDyingThread(func() {
			if err = a.disk.coverRoot(a.facts.RootFS); err == nil {
				err = start(p)
			}
		})
		return err
	}
}

func (d *diskPlan) coverRoot(root string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare(CLONE_NEWNS)", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount(MS_PRIVATE)", err)
	}
	var fds []any
	for _, dir := range []string{root, d.mount.Dir(d.request.Token, "upper"), d.mount.Dir(d.request.Token, "work")} {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: dir, Err: err}
		}
		defer unix.Close(fd)
		fds = append(fds, fd)
	}
	// By descriptor: a path could hold what separates options.
	options := fmt.Sprintf("lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d", fds...)
	if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
		return &os.PathError{Op: "mount an overlay over", Path: root, Err: err}
	}
	return nil
}

// disk is what a container holds of the quota mount; nil is nothing.
type disk struct {
	mount  *xfs.Mount
	record xfs.Record
}

// findDisk is called while the container's state directory is still there, and
// finds what a create that was killed half way took, too.
func (h *Host) findDisk(id string) *disk { return h.diskAt(id, h.diskOf(id)) }

// diskAt is for who knows where to look; nil is nowhere.
func (h *Host) diskAt(id string, at *state.Disk) *disk {
	if at == nil {
		return nil
	}
	m, err := xfs.Open(at.Mount)
	if err != nil {
		return nil // it is not there, or not what it was: a sweep takes care once it is again
	}
	record, err := m.Find(xfs.Owner{ID: id, Root: at.Root})
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			logrus.Warn(err)
		}
		m.Close()
		return nil
	}
	return &disk{m, record}
}

// diskOf says where to look. Of a create that was killed before it had saved
// anything, only the configuration knows.
func (h *Host) diskOf(id string) *state.Disk {
	record, err := state.Load(filepath.Join(h.Root, id))
	if err == nil {
		return record.Disk
	}
	host, err := h.Policy()
	if err != nil || host.QuotaMount == "" {
		return nil
	}
	return &state.Disk{Mount: host.QuotaMount, Root: realPath(absolute(h.Root))}
}

// release gives it back. It is called once nothing of the container runs any
// more and libcontainer has removed the rest. Whoever is killed before leaves
// it to the next sweep.
func (d *disk) release() error {
	if d == nil {
		return nil
	}
	defer d.mount.Close()
	return d.mount.Release(d.record)
}
