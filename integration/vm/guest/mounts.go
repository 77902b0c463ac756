package guest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/vm/plan"
)

type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

const plain = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

var initramfsMounts = []mount{
	{"proc", "/proc", "proc", plain, ""},
	{"sysfs", "/sys", "sysfs", plain, ""},
	{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, "mode=0755"},
}

// The host's files do not change under a guest in any way that it could bear,
// so it may as well cache them; QEMU exports them read-only, too.
var rootMounts = []mount{
	{plan.RootTag, "/lower", "9p", unix.MS_RDONLY, "trans=virtio,version=9p2000.L,msize=1048576,cache=loose"},
	{"layer", "/rw", "tmpfs", 0, "mode=0755"},
	{"", "/rw/upper", "", 0, ""},
	{"", "/rw/work", "", 0, ""},
	{"root", "/newroot", "overlay", 0, "lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work"},
}

var earlyMounts = []mount{
	{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
	{"tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "gid=5,mode=620,ptmxmode=000"},
	{"mqueue", "/dev/mqueue", "mqueue", plain, ""},
	// No cache: the host reads what is written, and the other way round.
	{plan.TagOf, plan.Share, "9p", unix.MS_NOSUID | unix.MS_NODEV, "trans=virtio,version=9p2000.L,msize=1048576,cache=none"},
	{"securityfs", "/sys/kernel/security", "securityfs", plain, ""},
	{"bpf", "/sys/fs/bpf", "bpf", plain, "mode=700"},
}

// As a host is prepared for hard limits; the second has no quota at all.
var diskMounts = []mount{
	{"/dev/vda", plan.QuotaXFS, "xfs", unix.MS_NOSUID | unix.MS_NODEV, "prjquota"},
	{"/dev/vdb", plan.PlainXFS, "xfs", unix.MS_NOSUID | unix.MS_NODEV, ""},
}

// The options are systemd's own, so that a test sees what a host has.
var cgroupMounts = []mount{
	{"cgroup2", "/sys/fs/cgroup", "cgroup2", plain, "nsdelegate,memory_recursiveprot"},
}

// mountAll makes each mount's folder and mounts it; one without a type is the
// folder alone.
func mountAll(mounts []mount) error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if m.kind == "" {
			continue
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.target, err)
		}
	}
	return nil
}

// makeDir gives a folder exactly this mode.
func makeDir(path string, mode uint32) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return unix.Chmod(path, mode)
}
