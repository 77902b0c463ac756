package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/quota/xfs"
)

func kernelVersion(Host) (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", os.NewSyscallError("uname", err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	return release, supported(release)
}

// supported: 5.14 has quotactl_fd and cgroup.kill, the last that sage needs.
// What a vendor has put into an older kernel nobody has tested.
func supported(release string) error {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("release %q: %w", release, err)
	}
	if major < 5 || major == 5 && minor < 14 {
		return fmt.Errorf("release %s is older than 5.14", release)
	}
	return nil
}

func architecture(Host) (string, error) {
	switch runtime.GOARCH {
	case "amd64", "arm64":
		return runtime.GOARCH, nil
	}
	return "", fmt.Errorf("%s: sage has no table of system calls for it", runtime.GOARCH)
}

// openat2 climbs out of a directory as a container's symlink would: with
// RESOLVE_IN_ROOT there is no way up. It writes nothing, for it needs no link.
func openat2(Host) (string, error) {
	root, err := unix.Open("/proc/self", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", os.NewSyscallError("open", err)
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, "../..", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return "", os.NewSyscallError("openat2(RESOLVE_IN_ROOT)", err)
	}
	defer unix.Close(fd)
	same, err := sameInode(root, fd)
	if err == nil && !same {
		err = errors.New("openat2(RESOLVE_IN_ROOT) left the root")
	}
	return "RESOLVE_IN_ROOT stays below the root", err
}

func sameInode(a, b int) (bool, error) {
	var first, second unix.Stat_t
	err := errors.Join(unix.Fstat(a, &first), unix.Fstat(b, &second))
	return first.Dev == second.Dev && first.Ino == second.Ino, err
}

// mountSetattr works on a mount that is attached nowhere and goes with its
// descriptor.
func mountSetattr(Host) (string, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return "", os.NewSyscallError("open_tree", err)
	}
	defer unix.Close(fd)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return "", os.NewSyscallError("mount_setattr", err)
	}
	var st unix.Statfs_t
	err = os.NewSyscallError("fstatfs", unix.Fstatfs(fd, &st))
	if want := int64(unix.ST_RDONLY | unix.ST_NOSUID); err == nil && st.Flags&want != want {
		err = fmt.Errorf("mount_setattr: flags of the mount are %#x, want %#x among them", st.Flags, want)
	}
	return "open_tree clones a mount, mount_setattr makes it read-only and nosuid", err
}

// quota only looks: that a limit holds is tried where one is set.
func quota(host Host) (string, error) {
	if host.QuotaMount == "" {
		return "", errors.New("linux_quota_mount is not set")
	}
	fd, err := unix.Open(host.QuotaMount, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: host.QuotaMount, Err: err}
	}
	defer unix.Close(fd)
	magic, err := sys.FSMagic(fd)
	if err != nil {
		return "", err
	}
	if magic != unix.XFS_SUPER_MAGIC {
		return "", fmt.Errorf("%s: the file system has magic %#x, want XFS, %#x", host.QuotaMount, magic, unix.XFS_SUPER_MAGIC)
	}
	counts, holds, err := sys.ProjectQuota(fd)
	if errors.Is(err, unix.ENOSYS) {
		// So says a kernel that knows quotas, of a mount without them.
		return "", fmt.Errorf("%s: mounted without quotas: %w", host.QuotaMount, err)
	}
	if err == nil && (!counts || !holds) {
		err = fmt.Errorf("%s: project quota accounting %t, enforcement %t", host.QuotaMount, counts, holds)
	}
	if err == nil {
		err = acceptable(host.QuotaMount)
	}
	return host.QuotaMount + ": project quota is counted and enforced", err
}

// acceptable asks whoever will set limits there: nosuid, nodev, the mount point.
func acceptable(mount string) error {
	m, err := xfs.Open(mount)
	if err == nil {
		m.Close()
	}
	return err
}

// appArmor and selinux matter to bundles that name a profile or a label.
func appArmor(Host) (string, error) {
	return setting("/sys/module/apparmor/parameters/enabled", "enabled: ", "not in this kernel")
}

func selinux(Host) (string, error) {
	return setting("/sys/fs/selinux/enforce", "enforcing: ", "not enabled")
}

// userNamespaces are of no use to sage, whose containers' processes are not
// root and cannot make any: whether the host allows them is the host's affair.
func userNamespaces(Host) (string, error) {
	return setting("/proc/sys/user/max_user_namespaces", "not needed; user.max_user_namespaces: ", "not needed; not in this kernel")
}

// yama explains a read-back that fails: 3 forbids tracing even to root.
func yama(Host) (string, error) {
	return setting("/proc/sys/kernel/yama/ptrace_scope", "ptrace_scope: ", "not in this kernel")
}

// setting reads a file of one line, which is there if the kernel has the thing.
func setting(path, label, without string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return without, nil
	}
	return label + strings.TrimSpace(string(data)), err
}
