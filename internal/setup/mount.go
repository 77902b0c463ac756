package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/quota/xfs"
)

// projectOption is what has XFS count and limit by project, from the first
// mount on: it can not be turned on later by a remount (xfs(5)).
const projectOption = "prjquota"

// mount puts the quota file system in its place, or judges what is there.
func (j *job) mount() error {
	m, err := mountAt(j.Mount)
	if err != nil {
		return err
	}
	if m != nil {
		return j.existingMount(m)
	}
	if j.Image == "" {
		return fmt.Errorf("%s: saw no mount there, want XFS mounted with %s,nosuid,nodev; mount it, or have one made with --quota-image FILE", j.Mount, projectOption)
	}
	if err := j.mayMount(); err != nil {
		return err
	}
	if err := j.directory("directory", j.Mount, 0o755); err != nil {
		return err
	}
	if err := j.trust(j.Mount); err != nil {
		return err
	}
	what := j.Image + " at " + j.Mount
	return j.make("mount", item{Kind: kindMount, Path: j.Mount, Text: j.Image}, what, func(*item) error {
		return mountImage(j.Image, j.Mount, j.crash)
	})
}

// trust is for what has just been made, if it was.
func (j *job) trust(path string) error {
	if j.DryRun {
		return nil
	}
	return trustPath(path)
}

func (j *job) existingMount(m *mountPoint) error {
	if j.Image != "" {
		if ok, err := mountOf(m, j.Image); err != nil || !ok {
			return errors.Join(err, fmt.Errorf("%s: saw another mount there, want %s or none", j.Mount, j.Image))
		}
	}
	if err := checkMount(j.Mount); err != nil {
		return err
	}
	return j.already("mount", j.Mount+", project quota counted and enforced")
}

// mountOf says whether image is what is mounted.
func mountOf(m *mountPoint, image string) (bool, error) {
	file, err := backingFile(m.Device)
	if err != nil {
		return false, err
	}
	target, err := filepath.EvalSymlinks(image)
	if errors.Is(err, fs.ErrNotExist) {
		return file == image+" (deleted)", nil // as the kernel tells of such a file
	}
	return file == target, err
}

// checkMount asks the package that will hold containers to their limits there.
func checkMount(path string) error {
	m, err := xfs.Open(path)
	if err == nil {
		m.Close()
	}
	return err
}

// mayMount refuses to hide files, and to mount an image twice.
func (j *job) mayMount() error {
	entries, err := os.ReadDir(j.Mount)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s: saw a directory with files in it, want an empty one, or none, to mount on", j.Mount)
	}
	devices, err := loopsOf(j.Image)
	if err == nil && len(devices) > 0 {
		err = fmt.Errorf("%s: saw it in use as block device %s, want it in no use; unmount it there, or detach it with losetup -d", j.Image, devices[0])
	}
	return err
}

// mountImage attaches and mounts. Until the very end there is nothing that
// has a name, so that a kill leaves nothing.
func mountImage(image, path string, crash func(string)) error {
	device, err := attachLoop(image)
	if err != nil {
		return err
	}
	defer device.Close()
	crash("loop attached")
	return mountDevice(device.Name(), path, crash)
}

// mountDevice verifies the mount before it is to be seen by anybody.
func mountDevice(device, path string, crash func(string)) error {
	fd, err := detachedMount(device, projectOption)
	if errors.Is(err, unix.EINVAL) && mountsPlain(device) {
		err = errNoQuota
	}
	if err != nil {
		return errcode.Wrap(errcode.ResourceLimitsUnsupported, "mount XFS with "+projectOption, err)
	}
	defer unix.Close(fd)
	if err := checkMount("/proc/self/fd/" + strconv.Itoa(fd)); err != nil {
		return fmt.Errorf("mount XFS with %s: %w", projectOption, err)
	}
	crash("mount detached")
	err = unix.MoveMount(fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
	return os.NewSyscallError("move_mount", err)
}

var errNoQuota = errors.New("this kernel has XFS without quotas; boot one with CONFIG_XFS_QUOTA")

// detachedMount mounts nowhere: it goes with its descriptor (fsopen(2)).
func detachedMount(device, option string) (int, error) {
	ctx, err := unix.Fsopen("xfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen(xfs)", err)
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigSetString(ctx, "source", device); err != nil {
		return -1, os.NewSyscallError("fsconfig(source)", err)
	}
	if err := unix.FsconfigSetFlag(ctx, option); err != nil {
		return -1, os.NewSyscallError("fsconfig("+option+")", err)
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, os.NewSyscallError("fsconfig(FSCONFIG_CMD_CREATE)", err)
	}
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	return fd, os.NewSyscallError("fsmount", err)
}

// mountsPlain tells a kernel without quotas, which says EINVAL only, from an
// image that it does not understand.
func mountsPlain(device string) bool {
	fd, err := detachedMount(device, "noquota")
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// unmountPatience is how long the last user of a mount may take to let go.
const unmountPatience = 2 * time.Second

// unmount takes the image off path, unless somebody uses it. A mount that was
// copied into another namespace, or that an overlay lies on, does not keep
// umount(2) from succeeding, but it does keep the device.
func unmount(m *mountPoint, image string) error {
	if err := unix.Unmount(m.Path, unix.UMOUNT_NOFOLLOW); err != nil {
		return errcode.Wrap(errcode.SetupFailed, "unmount "+m.Path, fmt.Errorf("%w; delete the containers that use it, and stop engines that keep files there", err))
	}
	if within(unmountPatience, func() bool { return !inUse(m.Device, image) }) {
		return nil
	}
	name, err := os.Readlink("/sys/dev/block/" + m.Device)
	if err == nil {
		err = mountDevice("/dev/"+filepath.Base(name), m.Path, func(string) {})
	}
	return errors.Join(fmt.Errorf("%s: saw it in use in another mount namespace, or below an overlay; want no container on it; delete them first", m.Path), err)
}

func inUse(device, image string) bool {
	file, err := backingFile(device)
	return err == nil && file == image
}

// within polls: the end of a mount in another namespace has no event.
func within(patience time.Duration, done func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !done(); <-tick.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}
