package guard

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
)

// onUnified refuses what is no cgroup of version 2, the only ones that take
// programs.
func onUnified(cgroup int) error {
	magic, err := sys.FSMagic(cgroup)
	if err == nil && magic != unix.CGROUP2_SUPER_MAGIC {
		err = fmt.Errorf("cgroup: saw a file system with magic %#x, want one of version 2 (mount -t cgroup2)", magic)
	}
	return errcode.Wrap(errcode.NetworkGuardUnsupported, "attach the network guard", err)
}

func notLoaded(kind Kind, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		err = fmt.Errorf("%w: want CAP_BPF and CAP_NET_ADMIN in the host's user namespace, so no rootless mode", err)
	case errors.Is(err, unix.ENOSYS):
		err = fmt.Errorf("%w: want a kernel with CONFIG_BPF_SYSCALL", err)
	case errors.Is(err, unix.EINVAL):
		err = fmt.Errorf("%w: want Linux 5.14 or later with CONFIG_CGROUP_BPF", err)
	}
	return errcode.Wrap(errcode.NetworkGuardUnsupported, "load the network guard", fmt.Errorf("%s: %w", kind, err))
}

// notAttached explains the kernel's EPERM: programs could be loaded, so it is
// one that admits no other beside itself, on this cgroup or above.
func notAttached(cgroup int, kind Kind, err error) error {
	if errors.Is(err, unix.EPERM) {
		return errcode.Wrap(errcode.NetworkGuardUnsupported, "attach the network guard", fmt.Errorf(
			"%s: %w: %s; want it attached with BPF_F_ALLOW_MULTI, or the container elsewhere", kind, err, exclusive(cgroup, kind)))
	}
	return errcode.Wrap(errcode.NetworkGuardFailed, "attach the network guard", fmt.Errorf("%s: %w", kind, err))
}

func displaced(kind Kind, id uint32) error {
	return errcode.Wrap(errcode.NetworkGuardUnsupported, "attach the network guard", fmt.Errorf(
		"%s: saw program %d of a cgroup above put out of force, want it attached with BPF_F_ALLOW_MULTI, or the container elsewhere", kind, id))
}

func missing(a Attached, seen []uint32) error {
	return errcode.Wrap(errcode.NetworkGuardFailed, "read the network guard back",
		fmt.Errorf("%s: saw the programs %d, want %d among them; somebody with root took it off, so make the container again", a.Kind, seen, a.ID))
}

// exclusive names the program in the way.
func exclusive(cgroup int, kind Kind) string {
	dir, err := unix.FcntlInt(uintptr(cgroup), unix.F_DUPFD_CLOEXEC, 0)
	for ; err == nil; dir, err = parent(dir) {
		ids, flags, err := sys.AttachedPrograms(dir, places[kind].Attach)
		if err == nil && len(ids) > 0 && flags&unix.BPF_F_ALLOW_MULTI == 0 {
			defer unix.Close(dir)
			return fmt.Sprintf("program %d on %s admits no other", ids[0], pathOf(dir))
		}
	}
	return "a program on a cgroup above admits no other"
}

// parent closes dir and opens the cgroup above, while there is one.
func parent(dir int) (int, error) {
	defer unix.Close(dir)
	up, err := unix.Openat(dir, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if magic, err := sys.FSMagic(up); err != nil || magic != unix.CGROUP2_SUPER_MAGIC {
		_ = unix.Close(up)
		return -1, unix.ENOENT
	}
	return up, nil
}

func pathOf(fd int) string {
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "a cgroup above"
	}
	return path
}

// Supported loads every program that a guard can have, and attaches none. It
// does not look for a cgroup: where one can be attached to is another question.
func Supported() error {
	for _, o := range []Options{
		{BridgePort: 1, Loopback: true, Transparent: true},
		{BridgePort: 1, Published: true},
		{BridgePort: 1, Shared: true},
	} {
		programs, _, err := load(o)
		if err != nil {
			return err
		}
		closeAll(programs)
	}
	return nil
}
