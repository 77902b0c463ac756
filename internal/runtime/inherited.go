package runtime

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/hardening"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
)

// checkInherited refuses descriptors that would reach round the policy: a
// socket made outside sends as those outside may, and a directory leads out of
// the root file system (attacks.md 4, CVE-2024-21626).
func checkInherited(p *libcontainer.Process, l *Launch, terminal bool) error {
	files := p.ExtraFiles
	if l.detached() && !terminal {
		files = append([]*os.File{l.Stdio.In, l.Stdio.Out, l.Stdio.Err}, files...)
	}
	for _, f := range files {
		if err := checkFile(int(f.Fd())); err != nil {
			return errcode.Wrap(errcode.PermissionDenied, "pass descriptor "+f.Name(), err)
		}
	}
	return nil
}

func checkFile(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	const want = "; want a pipe, a file, a terminal or the null device"
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return nil
	case unix.S_IFREG:
		return checkRegular(fd)
	case unix.S_IFSOCK:
		return checkSocket(fd)
	case unix.S_IFCHR:
		if isTerminal(fd) || unix.Major(st.Rdev) == 1 && slices.Contains(plainDevices, unix.Minor(st.Rdev)) {
			return nil
		}
		return fmt.Errorf("saw a device, %d:%d%s", unix.Major(st.Rdev), unix.Minor(st.Rdev), want)
	case unix.S_IFDIR:
		return errors.New("saw a directory, which may lie outside the container" + want)
	}
	return errors.New("saw what is no file" + want)
}

// plainDevices are the minors of null, zero, full, random and urandom.
var plainDevices = []uint32{3, 5, 7, 8, 9}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// checkRegular refuses files by which a program steers the kernel with the
// rights of whoever opened them: with one of a cgroup it would leave its own.
func checkRegular(fd int) error {
	var sfs unix.Statfs_t
	if err := unix.Fstatfs(fd, &sfs); err != nil {
		return err
	}
	if name := hardening.KernelFS(int64(sfs.Type)); name != "" { //nolint:unconvert // int32 on other architectures
		return fmt.Errorf("saw a file of %s; want a pipe, or a file on a disk", name)
	}
	return nil
}

// checkSocket lets one end of a socketpair pass, which reaches nobody but who
// has the other. A datagram socket sends to any name it is told, pair or not.
func checkSocket(fd int) error {
	unnamed, err := sys.Unnamed(fd)
	if err != nil {
		return err
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return err
	}
	if !unnamed || kind == unix.SOCK_DGRAM {
		return errors.New("saw a socket that reaches beyond the container; want a pipe, or a stream socket of an unnamed pair")
	}
	return nil
}
