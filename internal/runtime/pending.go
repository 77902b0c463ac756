package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"
)

// pendingName is the file in a state directory that says what a create was
// about to make. libcontainer saves its own state only after it has made the
// cgroup and moved init into it: a create that is killed before that leaves a
// cgroup which nothing else names.
const pendingName = "pending.json"

// The paths are kept resolved: a relative cgroupsPath means another place when
// delete is called from another cgroup. Those that were there before are left
// out: what is in them may be somebody else's.
type pending struct {
	Cgroups *cgroups.Cgroup   `json:"cgroups"`
	Paths   map[string]string `json:"paths"` // by controller; for cgroup v2 one, under ""
}

// lock keeps others from making or removing state directories below the root,
// for the moment between the directory and its record. It is taken on the
// root itself, which leaves no file behind, and ends with the process. A root
// that is not there, or not ours to open, has nothing to keep apart.
func (h *Host) lock() (unlock func(), err error) {
	dir, err := os.Open(h.Root)
	if err != nil {
		return func() {}, nil //nolint:nilerr // what it would keep apart is not there
	}
	if err := flock(dir, unix.LOCK_EX); err != nil {
		dir.Close()
		return nil, err
	}
	return func() { dir.Close() }, nil
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// writePending returns the record open and locked: as long as it is, somebody
// is at work on the container (flock(2)).
//
// With allNew the caller has seen, under the host's lock, that none of the paths
// is there.
func writePending(root, id string, state *libcontainer.State, allNew bool) (*os.File, error) {
	p := pending{Cgroups: state.Config.Cgroups, Paths: map[string]string{}}
	for controller, path := range state.CgroupPaths {
		if allNew || isMissing(path) {
			p.Paths[controller] = path
		}
	}
	f, err := os.OpenFile(filepath.Join(root, id, pendingName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = flock(f, unix.LOCK_EX)
	if err == nil {
		err = json.NewEncoder(f).Encode(p)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// errBusy says that another process is in the middle of a create.
var errBusy = errors.New("container is being created by another process")

// deletePending removes what a create that is no more has left under id:
// processes that wait in its cgroup, the cgroup, the state directory. Nothing
// there is fine. It returns [errBusy] where the create is alive; with force it
// first takes its processes away, upon which that create fails, cleans up and
// lets go. A create that was done just now has saved its state: then the
// container is there after all, and deletePending leaves it and returns it.
func (h *Host) deletePending(id string, force bool) (found *Container, err error) {
	// The waiting is out here, where no lock is held: others go on meanwhile.
	waitUntil(killPatience, func() bool {
		found, err = h.tryDeletePending(id, force)
		wait := errors.Is(err, errInitRunning) || force && errors.Is(err, errBusy)
		return !wait
	})
	return found, err
}

func (h *Host) tryDeletePending(id string, force bool) (*Container, error) {
	unlock, err := h.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir := filepath.Join(h.Root, id)
	f, err := os.Open(filepath.Join(dir, pendingName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var p pending
	if err == nil {
		defer f.Close()
		busy := flock(f, unix.LOCK_EX|unix.LOCK_NB) != nil
		// A record that was cut off was written before anything else was made.
		_ = json.NewDecoder(f).Decode(&p)
		if busy {
			if force {
				p.killAll()
			}
			return nil, errBusy
		}
	}
	if c, err := h.Load(id); !errors.Is(err, libcontainer.ErrNotExist) {
		return c, err
	}
	if err := p.removeCgroup(); err != nil {
		return nil, err
	}
	return nil, os.RemoveAll(dir)
}

func (p *pending) removeCgroup() error {
	if p.Cgroups == nil || len(p.Paths) == 0 {
		return nil // without paths the manager would make up some
	}
	if p.Cgroups.Resources == nil {
		p.Cgroups.Resources = &cgroups.Resources{} // the v1 manager expects one
	}
	m, err := manager.NewWithPaths(p.Cgroups, p.Paths)
	if err != nil {
		return err
	}
	if p.killAll() > 0 {
		return errInitRunning
	}
	if err := m.Destroy(); err != nil {
		return fmt.Errorf("unable to remove container's cgroup: %w", err)
	}
	return nil
}

// killAll kills what is in the cgroup and returns how many processes that
// were. The container never started, so that is init and its stages, and
// perhaps a hook of the bundle. On v1 a killed create may have joined only
// some of the hierarchies, so each is asked.
func (p *pending) killAll() (count int) {
	for _, path := range p.Paths {
		pids, err := cgroups.GetAllPids(path)
		if err != nil {
			continue // gone, or never made
		}
		if len(pids) > 0 {
			killGroup(path)
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		count += len(pids)
	}
	return count
}
