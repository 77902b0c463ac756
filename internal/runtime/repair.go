package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/runc/libcontainer"

	"github.com/sage-sandbox/sage/quota/xfs"
)

// Repair removes what creates that were killed have left below the root, and
// returns their containers' ids. Containers, and creates at work, are left
// alone; so is what is not a create's: a root may be a directory of others too.
func (h *Host) Repair() (removed []string, err error) {
	entries, err := os.ReadDir(h.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nobody has made a container yet
	}
	if err != nil {
		return nil, err
	}
	var broken []error
	for _, entry := range entries {
		done, err := h.repair(entry.Name())
		if err != nil {
			broken = append(broken, fmt.Errorf("repair container %s: %w", entry.Name(), err))
		}
		if done {
			removed = append(removed, entry.Name())
		}
	}
	return removed, errors.Join(broken...)
}

func (h *Host) repair(id string) (removed bool, err error) {
	if !h.leftByCreate(id) {
		return false, nil
	}
	disk := h.findDisk(id)
	c, err := h.deletePending(id, false)
	if errors.Is(err, errBusy) || c != nil {
		return false, nil
	}
	if err == nil {
		err = cmp.Or(disk.release(), h.endNetwork(id))
	}
	return err == nil, err
}

// leftByCreate says whether id has no container and looks as a create leaves
// it: with its record, or empty and of the mode that libcontainer gives, where
// it was killed before that.
func (h *Host) leftByCreate(id string) bool {
	dir := filepath.Join(h.Root, id)
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	if _, err := h.Load(id); !errors.Is(err, libcontainer.ErrNotExist) {
		return false
	}
	if _, err := os.Lstat(filepath.Join(dir, pendingName)); err == nil {
		return true
	}
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0 && info.Mode().Perm() == 0o711
}

// RepairQuota takes back the projects of containers that are gone, of all
// roots: the registry is the mount's.
func RepairQuota(mount string) (xfs.Swept, error) {
	m, err := xfs.Open(mount)
	if err != nil {
		return xfs.Swept{}, err
	}
	defer m.Close()
	return m.Sweep()
}
