package sys

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// statv is struct fs_quota_statv of linux/dqblk_xfs.h, of which sage reads but
// the flags; the kernel fills in the rest.
type statv struct {
	version int8
	_       uint8
	flags   uint16
	_       [156]byte
}

// Names of linux/dqblk_xfs.h and linux/quota.h.
const (
	statvVersion  = 1          // FS_QSTATV_VERSION1
	getStatv      = 'X'<<8 + 8 // Q_XGETQSTATV
	projectQuota  = 2          // PRJQUOTA
	projectCounts = 1 << 4     // FS_QUOTA_PDQ_ACCT
	projectHolds  = 1 << 5     // FS_QUOTA_PDQ_ENFD
	commandShift  = 8          // SUBCMDSHIFT
)

// ProjectQuota says whether the file system of fd counts what the projects on
// it use, and whether it holds them to their limits. It is quotactl_fd(2) of
// Linux 5.14, with Q_XGETQSTATV of quotactl(2), for XFS.
func ProjectQuota(fd int) (counts, holds bool, err error) {
	state := statv{version: statvVersion}
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), getStatv<<commandShift|projectQuota, 0,
		uintptr(unsafe.Pointer(&state)), 0, 0)
	if errno != 0 {
		return false, false, os.NewSyscallError("quotactl_fd(Q_XGETQSTATV)", errno)
	}
	return state.flags&projectCounts != 0, state.flags&projectHolds != 0, nil
}
