//go:build engines

package engines

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// capsule is pid 1 of the ring's namespaces: it prepares them, starts the
// tests, and reaps what shims and daemons leave to it.
func capsule() int {
	if err := prepareCapsule(); err != nil {
		return complain("prepare the capsule", err)
	}
	cmd := again(stageTests)
	if err := cmd.Start(); err != nil {
		return complain("start the tests", err)
	}
	status, err := reapUntil(cmd.Process.Pid)
	switch {
	case err != nil:
		return complain("wait for the tests", err)
	case status.Signaled():
		return 128 + int(status.Signal())
	default:
		return status.ExitStatus()
	}
}

// reapUntil collects every child, adopted ones too, until pid has ended.
func reapUntil(pid int) (syscall.WaitStatus, error) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return status, os.NewSyscallError("wait4", err)
		case got == pid:
			return status, nil
		}
	}
}

// mount is one call of mount(2).
type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

// prepareCapsule hides the host's own engines. Engines and CNI keep state at
// fixed paths, which no flag moves (shim sockets, the CNI result cache); a
// private /run and throw-away layers over the other places keep the ring from
// meeting a Docker that the developer uses, and the host from changing.
func prepareCapsule() error {
	err := mountAll([]mount{
		// Private cuts the tie to the host. Shared then is what engines meet on
		// a systemd host, and it lets a mount that got out be seen.
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"", "/", "", unix.MS_REC | unix.MS_SHARED, ""},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
	})
	if err != nil {
		return err
	}
	for _, dir := range []string{"/etc", "/opt", "/usr/local/bin", "/var/lib", "/var/log"} {
		if err := coverFolder(dir); err != nil {
			return err
		}
	}
	if err := os.Mkdir("/run/lock", 0o755); err != nil {
		return err
	}
	return errors.Join(writeDefaultHostFile(), closeCgroupRoot(), loopbackUp())
}

// writeDefaultHostFile takes the place of the developer's own, if there is one.
func writeDefaultHostFile() error {
	const dir = "/etc/sage"
	return errors.Join(
		os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(harness.Compat), 0o644),
	)
}

// closeCgroupRoot forbids plain folders between the hierarchies of cgroup v1, as
// systemd does. Podman makes them for controllers that have no hierarchy, and
// they would stay on the host.
func closeCgroupRoot() error {
	if unified() {
		return nil
	}
	return mountAll([]mount{{"", "/sys/fs/cgroup", "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY, ""}})
}

// coverFolder lets writes to a folder go to memory.
func coverFolder(dir string) error {
	upper, work := filepath.Join("/run/ring/upper", dir), filepath.Join("/run/ring/work", dir)
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work)
	return mountAll([]mount{{"overlay", dir, "overlay", 0, layers}})
}

func mountAll(steps []mount) error {
	for _, m := range steps {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return &os.PathError{Op: "mount", Path: m.target, Err: err}
		}
	}
	return nil
}

// loopbackUp matters since crictl's exec and published ports use 127.0.0.1.
func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// cacheDir is where peers and root file systems were put.
func cacheDir() string {
	if dir := os.Getenv("SAGE_CACHE"); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "/var/cache/sage"
	}
	return filepath.Join(dir, "sage")
}
