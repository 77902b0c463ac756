package sys

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Attributes is struct fsxattr of linux/fs.h: what an inode counts for, and
// flags of which sage changes but one.
type Attributes struct {
	Flags      uint32 // FS_XFLAG_*
	ExtentSize uint32
	extents    uint32 // to be read only
	Project    uint32
	cowExtent  uint32
	_          [8]byte
}

// ProjectInherit is FS_XFLAG_PROJINHERIT: what is made in a directory that has
// it counts for the directory's project.
const ProjectInherit = 0x200

// Numbers of linux/fs.h, the same on every architecture that sage is built for.
const (
	getAttributes = 0x801c581f // FS_IOC_FSGETXATTR
	setAttributes = 0x401c5820 // FS_IOC_FSSETXATTR
	getVersion    = 0x80087601 // FS_IOC_GETVERSION
)

// GetAttributes reads the attributes of an open inode; not one that is open
// with O_PATH (ioctl_xfs_fsgetxattr(2), Linux 4.5 for every file system).
func GetAttributes(fd int) (Attributes, error) {
	var a Attributes
	err := ioctl(fd, getAttributes, unsafe.Pointer(&a))
	return a, os.NewSyscallError("ioctl(FS_IOC_FSGETXATTR)", err)
}

// SetAttributes writes what [GetAttributes] read, changed. The project can only
// be changed from within the initial user namespace.
func SetAttributes(fd int, a Attributes) error {
	return os.NewSyscallError("ioctl(FS_IOC_FSSETXATTR)", ioctl(fd, setAttributes, unsafe.Pointer(&a)))
}

// Generation tells two inodes apart that had one number after the other. It is
// only ever set when an inode is made (FS_IOC_GETVERSION).
func Generation(fd int) (uint32, error) {
	var n uint64 // the kernel writes an int, the number says long
	err := ioctl(fd, getVersion, unsafe.Pointer(&n))
	return uint32(n), os.NewSyscallError("ioctl(FS_IOC_GETVERSION)", err)
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	if errno != 0 {
		return errno
	}
	return nil
}

// fileAttr is struct file_attr of linux/fs.h (FILE_ATTR_SIZE_VER0).
type fileAttr struct {
	flags      uint64
	extentSize uint32
	extents    uint32
	project    uint32
	cowExtent  uint32
}

// Numbers that golang.org/x/sys/unix does not have yet.
const (
	sysFileGetattr = 468
	sysFileSetattr = 469
)

// GetAttributesAt reads those of name in the directory dirfd, also where name
// is a symlink, a socket or a device, which no descriptor can be had of. It is
// file_getattr(2) of Linux 6.17, ENOSYS before. XFS takes part in it for such
// inodes since 6.17 too, and says EOPNOTSUPP or ENOTTY where it does not.
func GetAttributesAt(dirfd int, name string) (Attributes, error) {
	var a fileAttr
	if err := attributesAt(sysFileGetattr, dirfd, name, &a); err != nil {
		return Attributes{}, os.NewSyscallError("file_getattr", err)
	}
	return Attributes{Flags: uint32(a.flags), ExtentSize: a.extentSize, Project: a.project, cowExtent: a.cowExtent}, nil
}

// SetAttributesAt writes what [GetAttributesAt] read, changed.
func SetAttributesAt(dirfd int, name string, a Attributes) error {
	attr := fileAttr{flags: uint64(a.Flags), extentSize: a.ExtentSize, project: a.Project, cowExtent: a.cowExtent}
	return os.NewSyscallError("file_setattr", attributesAt(sysFileSetattr, dirfd, name, &attr))
}

func attributesAt(number uintptr, dirfd int, name string, a *fileAttr) error {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall6(number, uintptr(dirfd), uintptr(unsafe.Pointer(p)),
		uintptr(unsafe.Pointer(a)), unsafe.Sizeof(*a), unix.AT_SYMLINK_NOFOLLOW, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
