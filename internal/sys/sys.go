// Package sys makes the few calls to the Linux kernel for which
// golang.org/x/sys/unix has no function: the module's only unsafe code is here.
// It decides nothing and knows nothing of policies; what a result means is its
// caller's business.
package sys

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Namespace identifies one namespace of the kernel: ioctl_ns(2) says that the
// inode number alone does not.
type Namespace struct {
	Dev, Ino uint64
}

// NamespaceID tells which namespace a process is in; kind is a name in
// /proc/PID/ns, as "net" or "mnt".
func NamespaceID(pid int, kind string) (Namespace, error) {
	var st unix.Stat_t
	path := fmt.Sprintf("/proc/%d/ns/%s", pid, kind)
	if err := unix.Stat(path, &st); err != nil {
		return Namespace{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return Namespace{Dev: st.Dev, Ino: st.Ino}, nil
}

// FSMagic is f_type of statfs(2) for the file system that fd lies on. fd may
// have been opened with O_PATH (Linux 3.12).
func FSMagic(fd int) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return 0, os.NewSyscallError("fstatfs", err)
	}
	return st.Type, nil
}
