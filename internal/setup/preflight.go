package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// preflight says at once what the host lacks, before anything is made: who
// is to boot another kernel wants to do it once.
func (j *job) preflight() error {
	if _, err := spec.ParseHost([]byte(configText(j.settings()))); err != nil {
		return err
	}
	if err := errcode.Wrap(errcode.ResourceLimitsUnsupported, "prepare this host", lacking()); err != nil {
		return err
	}
	return j.imageProgram()
}

// lacking is on one line, as logs are.
func lacking() error {
	cgroup, quota := cgroupKernel(), quotaKernel()
	if cgroup != nil && quota != nil {
		return fmt.Errorf("%w; and %w", cgroup, quota)
	}
	return errors.Join(cgroup, quota)
}

// cgroupKernel wants version 2 alone: a controller is with one hierarchy only,
// so that v2 beside v1 has none of those that limits need.
func cgroupKernel() error {
	var st unix.Statfs_t
	if err := unix.Statfs(cgroupMount, &st); err != nil {
		return &os.PathError{Op: "statfs", Path: cgroupMount, Err: err}
	}
	if st.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("%s: saw a file system of magic %#x, want cgroup v2 alone, %#x; boot with systemd.unified_cgroup_hierarchy=1, or mount -t cgroup2",
			cgroupMount, st.Type, unix.CGROUP2_SUPER_MAGIC)
	}
	return nil
}

// quotaKernel: fsopen(2) has the module loaded. The file is that of XFS'
// quotas, whose absence a mount tells by EINVAL only.
func quotaKernel() error {
	fd, err := unix.Fsopen("xfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("%w; boot a kernel with XFS (CONFIG_XFS_FS, CONFIG_XFS_QUOTA)", os.NewSyscallError("fsopen(xfs)", err))
	}
	unix.Close(fd)
	if _, err := os.Stat("/proc/fs/xfs/xqmstat"); errors.Is(err, fs.ErrNotExist) {
		return errNoQuota
	}
	return nil
}

func (j *job) imageProgram() error {
	if j.Image == "" {
		return nil
	}
	there, err := exists(j.Image)
	if err == nil && !there {
		_, err = findMkfs()
	}
	if err == nil && j.Size < minSize && !there {
		err = fmt.Errorf("size: saw %d bytes, want at least %d MiB", j.Size, minSize>>20)
	}
	if err == nil && filepath.Clean(j.Image) != j.Image {
		err = fmt.Errorf("image: saw %s, want an absolute path in its shortest form", j.Image)
	}
	return err
}
