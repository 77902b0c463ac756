package runtime

import (
	"errors"
	"os"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

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
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return errors.New("saw a directory, which may lie outside the container; want a pipe, a file or a terminal")
	case unix.S_IFSOCK:
		return checkSocket(fd)
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
