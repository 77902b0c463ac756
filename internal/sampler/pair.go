package sampler

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/state"
)

// Where nothing of sage's stays beside a container, two processes watch it: one
// that samples and counts the time, and one that does nothing but kill the
// container when the first dies. Either can be killed, by a mistake or for want
// of memory, and the container ends; both at once can not be told from outside.

// The roles, which are arguments on the command line of this program.
const (
	RoleSampler = "sampler"
	RoleGuard   = "guard"
)

const (
	readyFD = 3 // gets one byte once the watch has begun
	linkFD  = 4 // one end of a socket pair, whose other end the partner has
	ready   = 'w'
)

// readyWait is how long the pair may take to begin, on a machine that is busy.
const readyWait = 20 * time.Second

// Spawn starts the pair for the container whose plan lies in the state directory,
// and returns once both watch. command gives the arguments of this program that
// make it [Serve] in a role.
func Spawn(command func(role string) []string) error {
	err := spawn(command)
	return errcode.Wrap(errcode.WatchFailed, "watch the container", err)
}

func spawn(command func(role string) []string) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	ends := []*os.File{os.NewFile(uintptr(fds[0]), "link"), os.NewFile(uintptr(fds[1]), "link")}
	defer ends[0].Close()
	defer ends[1].Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	// What was passed to a command with --preserve-fds is the container's alone.
	if err := unix.CloseRange(readyFD, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return os.NewSyscallError("close_range", err) // Linux 5.11
	}
	for i, role := range []string{RoleSampler, RoleGuard} {
		if err = startRole(command(role), w, ends[i]); err != nil {
			break
		}
	}
	w.Close()
	if err != nil {
		return err // the other one sees its link end, and has not begun
	}
	return awaitReady(r, 2)
}

// startRole leaves nothing of ours to the process but the two descriptors: it
// outlives us, and would keep whoever reads our output waiting.
func startRole(args []string, ready, link *os.File) error {
	cmd := exec.Command("/proc/self/exe") //nolint:noctx // it outlives whoever could end it
	cmd.Args = args
	cmd.Env = []string{} // nil would be ours
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{ready, link}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

func awaitReady(r *os.File, count int) error {
	if err := r.SetReadDeadline(time.Now().Add(readyWait)); err != nil {
		return err
	}
	got := make([]byte, count)
	switch n, err := io.ReadFull(r, got); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("saw %d of %d processes begin within %v", n, count, readyWait)
	case err != nil:
		return fmt.Errorf("saw %d of %d processes begin, and the others end", n, count)
	}
	return nil
}

// Serve is one of the pair: it watches the container whose state directory is
// dir until that has ended. The rest of the process is not to do anything else.
func Serve(role, dir string) error {
	link, begun, err := inherited()
	if err != nil {
		return err
	}
	p, err := Load(dir)
	if err == nil && p == nil {
		err = errors.New("saw no plan, want the one that create wrote")
	}
	if err != nil {
		return err
	}
	if role == RoleGuard {
		p.Seconds, p.Limits = 0, Limits{} // those are the partner's
	}
	w, err := begin(p, dir, link)
	if err != nil {
		return err
	}
	if role == RoleSampler {
		if err := Claim(dir); err != nil {
			w.kill(verdict{state.SamplerLost, "claim: " + err.Error()})
			return err
		}
	}
	if _, err := begun.Write([]byte{ready}); err != nil {
		return err // our partner sees it, and whoever waited is gone
	}
	begun.Close()
	w.Wait()
	return nil
}

// inherited takes over what [startRole] passed.
func inherited() (link, begun *os.File, err error) {
	for _, fd := range []int{readyFD, linkFD} {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, nil, fmt.Errorf("descriptor %d: %w: want this started by create or run", fd, err)
		}
	}
	return os.NewFile(linkFD, "link"), os.NewFile(readyFD, "ready"), nil
}
