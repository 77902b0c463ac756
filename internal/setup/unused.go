package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/quota/xfs"
)

// unused refuses while anything is on what would be taken back.
func (j *job) unused() error {
	ours := slices.ContainsFunc(j.rec.Items, func(it item) bool { return it.Kind == kindImage })
	for _, it := range j.rec.Items {
		var err error
		switch it.Kind {
		case kindMount:
			err = mountUnused(it, ours)
		case kindCgroup:
			err = j.cgroupUnused(it.Path)
		case kindDirectory, kindImage, kindFstab, kindControllers, kindFile:
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mountUnused: an image that setup made goes with all that is in it, so there
// must be nothing but what sage keeps there itself.
func mountUnused(it item, imageIsOurs bool) error {
	m, err := mountAt(it.Path)
	if err != nil || m == nil {
		return err
	}
	if ours, err := mountOf(m, it.Text); err != nil || !ours {
		return err // undo will leave it alone
	}
	if err := projectsUnused(it.Path); err != nil {
		return err
	}
	if imageIsOurs {
		if err := onlyRegistry(it.Path); err != nil {
			return err
		}
	}
	// It fails where a file is open or a mount lies below, and else only marks
	// the mount, which the next who uses it takes away again (umount(2)).
	err = unix.Unmount(it.Path, unix.MNT_EXPIRE)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%s: saw it in use, want no open file and no mount on it; delete the containers that use it, and stop engines that keep files there", it.Path)
	}
	return nil
}

// projectsUnused sweeps first, so that what a killed container left is no
// reason.
func projectsUnused(mount string) error {
	m, err := xfs.Open(mount)
	if err != nil {
		return nil // no container can have a limit there
	}
	defer m.Close()
	swept, err := m.Sweep()
	if err == nil && swept.Held > 0 {
		err = fmt.Errorf("%s: saw projects of %d containers, want none; delete the containers", mount, swept.Held)
	}
	return err
}

// registryName is the directory in which sage keeps account of projects.
const registryName = ".sage"

func onlyRegistry(mount string) error {
	entries, err := os.ReadDir(mount)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != registryName {
			return fmt.Errorf("%s: saw %.64q and %d others in it, want nothing: the image goes with all that it holds; move it away first", mount, e.Name(), len(entries)-1)
		}
	}
	return nil
}

// cgroupUnused lets those cgroups pass that setup made itself.
func (j *job) cgroupUnused(dir string) error {
	below, err := cgroupsBelow(dir)
	if err != nil {
		return err
	}
	for _, name := range below {
		path := dir + "/" + name
		if !slices.ContainsFunc(j.rec.Items, func(it item) bool { return it.Kind == kindCgroup && it.Path == path }) {
			return fmt.Errorf("%s: saw the cgroup %.64q in it, want none; delete the containers there", dir, name)
		}
	}
	pids, err := words(dir, "cgroup.procs")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(pids) > 0 {
		err = fmt.Errorf("%s: saw the processes %s in it, want none", dir, strings.Join(pids, " "))
	}
	return err
}
