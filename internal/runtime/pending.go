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
// delete is called from another cgroup.
type pending struct {
	Cgroups *cgroups.Cgroup   `json:"cgroups"`
	Paths   map[string]string `json:"paths"` // by controller; for cgroup v2 one, under ""
}

// writePending returns the record open and locked: as long as it is, somebody
// is at work on the container. The lock ends with the process (flock(2)).
func writePending(root, id string, state *libcontainer.State) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(root, id, pendingName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	if err == nil {
		err = json.NewEncoder(f).Encode(pending{Cgroups: state.Config.Cgroups, Paths: state.CgroupPaths})
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// deletePending removes what a killed create has left under id: processes that
// wait in its cgroup, the cgroup, the state directory. Nothing there is fine.
// A create that is still at work is left alone, but for force.
func (h *Host) deletePending(id string, force bool) error {
	dir := filepath.Join(h.Root, id)
	f, err := os.Open(filepath.Join(dir, pendingName))
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(dir)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil && !force {
		return nil
	}
	// A record that was cut off was written before anything else was made.
	var p pending
	if json.NewDecoder(f).Decode(&p) == nil && p.Cgroups != nil {
		if err := p.removeCgroup(); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

func (p *pending) removeCgroup() error {
	if p.Cgroups.Resources == nil {
		p.Cgroups.Resources = &cgroups.Resources{} // the v1 manager expects one
	}
	m, err := manager.NewWithPaths(p.Cgroups, p.Paths)
	if err != nil {
		return err
	}
	if !waitUntil(killPatience, func() bool { return p.killAll() == 0 }) {
		return errors.New("container init still running")
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
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		count += len(pids)
	}
	return count
}
