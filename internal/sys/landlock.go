package sys

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock is what the kernel offers of landlock(7).
type Landlock struct {
	ABI    int  // 0: not built in, or not enabled at boot
	Errata uint // bit n-1: erratum n is mended; asked for since Linux 6.15
}

// landlockErrata is LANDLOCK_CREATE_RULESET_ERRATA of Linux 6.15.
const landlockErrata = 1 << 1

// FindLandlock asks the kernel. Both of "not built in" (ENOSYS) and "disabled at
// boot" (EOPNOTSUPP) are an ABI of 0 and no error.
func FindLandlock() (Landlock, error) {
	abi, errno := createRuleset(nil, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errors.Is(errno, unix.ENOSYS) || errors.Is(errno, unix.EOPNOTSUPP) {
		return Landlock{}, nil
	}
	if errno != nil {
		return Landlock{}, os.NewSyscallError("landlock_create_ruleset", errno)
	}
	// An error means a kernel that cannot tell: then nothing counts as mended.
	errata, errno := createRuleset(nil, landlockErrata)
	if errno != nil {
		errata = 0
	}
	return Landlock{ABI: abi, Errata: uint(errata)}, nil
}

// LandlockDenyAll denies every thread of the process all that attr names, with
// no exception and for good. Threads must have no_new_privs set (EPERM). What
// was opened before stays usable.
func LandlockDenyAll(attr unix.LandlockRulesetAttr) error {
	ruleset, err := createRuleset(&attr, 0)
	if err != nil {
		return os.NewSyscallError("landlock_create_ruleset", err)
	}
	defer unix.Close(ruleset)
	return EveryThread("landlock_restrict_self", unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0)
}

// createRuleset returns the bare errno, as syscalls do.
func createRuleset(attr *unix.LandlockRulesetAttr, flags uintptr) (int, error) {
	var size uintptr
	if attr != nil {
		size = unsafe.Sizeof(*attr)
		// Kernels of old take a longer struct as long as the rest of it is zero.
	}
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(attr)), size, flags)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
