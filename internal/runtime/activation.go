package runtime

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"
)

// firstFD is the first descriptor after standard error, where both socket
// activation (sd_listen_fds(3)) and --preserve-fds begin.
const firstFD = 3

// listenFDs returns how many sockets a service manager handed to this process.
func listenFDs(getenv func(string) string) int {
	if pid, err := strconv.Atoi(getenv("LISTEN_PID")); err != nil || pid != os.Getpid() {
		return 0
	}
	n, err := strconv.Atoi(getenv("LISTEN_FDS"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// inherit passes listen sockets and preserve further descriptors of ours on to
// the process, from number 3 upwards in that order.
func inherit(p *libcontainer.Process, listen, preserve int) error {
	if listen > 0 {
		// The process is pid 1 of its namespace, whatever its pid is here.
		p.Env = append(p.Env, "LISTEN_FDS="+strconv.Itoa(listen), "LISTEN_PID=1")
	}
	for fd := firstFD; fd < firstFD+listen+preserve; fd++ {
		err := inherited(fd)
		if n := fd - firstFD; err != nil && n < listen {
			return fmt.Errorf("LISTEN_FDS: socket %d (of %d): %w", n, listen, err)
		} else if err != nil {
			return fmt.Errorf("unable to stat preserved-fd %d (of %d): %w", n-listen, preserve, err)
		}
		p.ExtraFiles = append(p.ExtraFiles, os.NewFile(uintptr(fd), filepath.Join("fd", strconv.Itoa(fd))))
	}
	return nil
}

// inherited says whether fd was open when this program started. If the caller
// did not pass it, its number may by now be that of our log file, which must
// not get into a container. All that Go opens is close-on-exec, and nothing
// that came through an exec can be.
func inherited(fd int) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err == nil && flags&unix.FD_CLOEXEC != 0 {
		err = unix.EBADF
	}
	return err
}
