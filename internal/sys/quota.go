package sys

import (
	"errors"
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

// diskQuota is struct fs_disk_quota of linux/dqblk_xfs.h, with the fields that
// sage neither reads nor sets left out. Blocks are of 512 bytes.
type diskQuota struct {
	version   int8
	flags     int8 // what the id is of: a user, a group, a project
	fields    uint16
	id        uint32
	blockHard uint64
	blockSoft uint64
	inodeHard uint64
	inodeSoft uint64
	blocks    uint64
	inodes    uint64
	_         [56]byte
}

// Names of linux/dqblk_xfs.h and linux/quota.h.
const (
	statvVersion  = 1          // FS_QSTATV_VERSION1
	quotaVersion  = 1          // FS_DQUOT_VERSION
	getStatv      = 'X'<<8 + 8 // Q_XGETQSTATV
	getQuota      = 'X'<<8 + 3 // Q_XGETQUOTA
	setLimits     = 'X'<<8 + 4 // Q_XSETQLIM
	projectFlag   = 2          // FS_PROJ_QUOTA
	fourLimits    = 0xf        // FS_DQ_ISOFT, IHARD, BSOFT, BHARD
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
	if err := quotactl(fd, getStatv, 0, unsafe.Pointer(&state)); err != nil {
		return false, false, os.NewSyscallError("quotactl_fd(Q_XGETQSTATV)", err)
	}
	return state.flags&projectCounts != 0, state.flags&projectHolds != 0, nil
}

// ProjectUsage is what one project is held to and what it has. A limit of 0 is
// none.
type ProjectUsage struct {
	BlockHard, BlockSoft uint64 // in units of 512 bytes
	InodeHard, InodeSoft uint64
	Blocks               uint64 // of 512 bytes; with what is reserved for writes to come
	Inodes               uint64 // with files that are unlinked and still open
}

// GetProjectUsage asks for one project of the file system of fd. A project that
// has nothing, is held to nothing and perhaps never was is all zero. It needs
// CAP_SYS_ADMIN in the initial user namespace (quotactl(2), Q_XGETQUOTA).
func GetProjectUsage(fd int, id uint32) (ProjectUsage, error) {
	var q diskQuota
	err := quotactl(fd, getQuota, id, unsafe.Pointer(&q))
	if errors.Is(err, unix.ENOENT) {
		return ProjectUsage{}, nil
	}
	return ProjectUsage{
		BlockHard: q.blockHard, BlockSoft: q.blockSoft, InodeHard: q.inodeHard, InodeSoft: q.inodeSoft,
		Blocks: q.blocks, Inodes: q.inodes,
	}, os.NewSyscallError("quotactl_fd(Q_XGETQUOTA)", err)
}

// SetProjectLimits sets the two hard limits of a project, the first in units of
// 512 bytes, and takes its soft ones away; 0 is no limit. The kernel rounds
// blocks up to the file system's own (quotactl(2), Q_XSETQLIM).
func SetProjectLimits(fd int, id uint32, blockHard, inodeHard uint64) error {
	q := diskQuota{
		version: quotaVersion, flags: projectFlag, fields: fourLimits, id: id,
		blockHard: blockHard, inodeHard: inodeHard,
	}
	return os.NewSyscallError("quotactl_fd(Q_XSETQLIM)", quotactl(fd, setLimits, id, unsafe.Pointer(&q)))
}

// quotactl returns the bare errno: os.NewSyscallError of a nil error is nil.
func quotactl(fd int, command uintptr, id uint32, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), command<<commandShift|projectQuota, uintptr(id), uintptr(arg), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
