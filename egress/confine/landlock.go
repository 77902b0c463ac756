package confine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

// signalErratum is erratum 2 of landlock(7): before it was mended, a domain with
// LANDLOCK_SCOPE_SIGNAL could not signal its own other threads, which the Go
// runtime lives by.
const signalErratum = 1 << (2 - 1)

// rights are those that each version of the kernel's ABI added.
var rights = []struct {
	abi       int
	fs        uint64
	net       uint64
	scope     uint64
	only      Role // 0: both
	unlessErr uint // the erratum that must be mended
}{
	{abi: 1, fs: 1<<13 - 1}, // LANDLOCK_ACCESS_FS_EXECUTE to MAKE_SYM
	{abi: 2, fs: unix.LANDLOCK_ACCESS_FS_REFER},
	{abi: 3, fs: unix.LANDLOCK_ACCESS_FS_TRUNCATE},
	{abi: 4, net: unix.LANDLOCK_ACCESS_NET_BIND_TCP},
	{abi: 4, net: unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, only: Bridge},
	{abi: 5, fs: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
	{abi: 6, scope: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET},
	{abi: 6, scope: unix.LANDLOCK_SCOPE_SIGNAL, unlessErr: signalErratum},
}

// landlock denies every right that the kernel knows of, and finds out that it
// does. A kernel without Landlock is no error: the empty root and the filter
// stand alone. One that has it and refuses is.
func landlock(role Role) error {
	has, err := sys.FindLandlock()
	if err != nil || has.ABI == 0 {
		return err
	}
	if err := sys.LandlockDenyAll(ruleset(role, has)); err != nil {
		return err
	}
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	if !errors.Is(err, unix.EACCES) {
		return fmt.Errorf("landlock: opening a directory gave %w, want %w", err, unix.EACCES)
	}
	return nil
}

func ruleset(role Role, has sys.Landlock) unix.LandlockRulesetAttr {
	var attr unix.LandlockRulesetAttr
	for _, r := range rights {
		if r.abi > has.ABI || r.only != 0 && r.only != role || r.unlessErr&^has.Errata != 0 {
			continue
		}
		attr.Handled_access_fs |= r.fs
		attr.Handled_access_net |= r.net
		attr.Scoped |= r.scope
	}
	return attr
}
