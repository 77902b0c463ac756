package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Undo takes back what setup made on this host, the last first, and nothing
// else. It refuses, before it has changed anything, while containers or files
// are on the mount or in the cgroup root. What others have changed or filled
// since is kept, and said.
func Undo(o Options, say func(Line)) error {
	return withJob(o, say, func(j *job) error {
		if len(j.rec.Items) == 0 {
			j.say(Line{"record", Already, "nothing that setup made is here"})
			return j.rec.save() // removes what a kill left of a first one
		}
		if err := j.unused(); err != nil {
			return err
		}
		if j.DryRun {
			for _, it := range slices.Backward(j.rec.Items) {
				j.say(Line{string(it.Kind), WouldUn, it.Path})
			}
			return nil
		}
		return j.takeBack(func(item) bool { return true })
	})
}

// takeBack undoes the last items, as long as they are chosen. It stops at one
// that does not go: what was made before it may be what that rests on.
func (j *job) takeBack(chosen func(item) bool) error {
	for len(j.rec.Items) > 0 && chosen(*j.rec.last()) {
		it := *j.rec.last()
		line, err := j.undo(it)
		if err != nil {
			return fmt.Errorf("take back %s %s: %w", it.Kind, it.Path, err)
		}
		j.crash("undone " + string(it.Kind) + " " + it.Path)
		if err := j.rec.drop(); err != nil {
			return err
		}
		j.say(line)
	}
	return nil
}

// cleanUp finishes what a setup that was killed had begun, by undoing it.
func (j *job) cleanUp() error {
	if n := len(j.rec.Items); n == 0 || j.rec.last().Done || j.DryRun {
		return nil
	}
	it := *j.rec.last()
	if _, err := j.undo(it); err != nil {
		return fmt.Errorf("clean up %s %s of a setup that was killed: %w", it.Kind, it.Path, err)
	}
	j.say(Line{string(it.Kind), Finished, it.Path})
	return j.rec.drop()
}

// undo is content with an item that is not there: it may have been killed
// before it was made, or after it was undone.
func (j *job) undo(it item) (Line, error) {
	line := Line{string(it.Kind), Undone, it.Path}
	var kept string
	var err error
	switch it.Kind {
	case kindDirectory, kindCgroup:
		kept, err = undoDirectory(it)
	case kindImage:
		kept, err = undoImage(it)
	case kindMount:
		kept, err = undoMount(it)
	case kindFstab:
		var removed bool
		if removed, err = unpersist(it); !removed && it.Done {
			kept = "the line is not as setup wrote it"
		}
		err = errors.Join(err, removeAll(tempName(it.Path)))
	case kindControllers:
		kept, err = undoControllers(it)
	case kindFile:
		kept, err = undoFile(it)
	default:
		err = fmt.Errorf("saw an item of kind %.32q, want one that this sage-runtime knows", it.Kind)
	}
	if kept != "" {
		line.Did, line.What = Kept, it.Path+": "+kept
	}
	return line, err
}

func undoDirectory(it item) (kept string, err error) {
	err = unix.Rmdir(it.Path)
	switch {
	case errors.Is(err, unix.ENOENT):
		return "", nil
	case errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST):
		return "there is something in it", nil
	case errors.Is(err, unix.EBUSY) && it.Kind == kindDirectory:
		return "it is in use", nil
	case err != nil:
		return "", &os.PathError{Op: "rmdir", Path: it.Path, Err: err}
	}
	return "", nil
}

func undoImage(it item) (kept string, err error) {
	if err := removeAll(tempName(it.Path)); err != nil {
		return "", err
	}
	ino, err := inode(it.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case ino != it.Ino:
		return "it is another file than setup made", nil
	}
	if devices, err := loopsOf(it.Path); err != nil || len(devices) > 0 {
		return "", errors.Join(err, fmt.Errorf("saw it in use as block device %s, want it in no use", strings.Join(devices, ", ")))
	}
	return "", os.Remove(it.Path)
}

func undoMount(it item) (kept string, err error) {
	m, err := mountAt(it.Path)
	if err != nil || m == nil {
		return "", err
	}
	if ours, err := mountOf(m, it.Text); err != nil || !ours {
		return "another file system is mounted there", err
	}
	return "", unmount(m, it.Text)
}

// undoControllers leaves them on where there are other cgroups: a limit of
// theirs would be gone with the controller.
func undoControllers(it item) (kept string, err error) {
	below, err := cgroupsBelow(it.Path)
	if err != nil {
		return "", err
	}
	if len(below) > 0 {
		return "other cgroups there may use " + it.Text, nil
	}
	on, err := words(it.Path, "cgroup.subtree_control")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	names := slices.DeleteFunc(strings.Fields(it.Text), func(name string) bool { return !slices.Contains(on, name) })
	return "", writeControllers(it.Path, "-", names)
}

func undoFile(it item) (kept string, err error) {
	if err := removeAll(tempName(it.Path)); err != nil {
		return "", err
	}
	data, err := os.ReadFile(it.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case digest(data) != it.Text:
		return "it was changed since", nil
	}
	return "", os.Remove(it.Path)
}
