package runtime

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/containerd/console"
	"golang.org/x/sys/unix"
)

// terminal is a pseudoterminal relayed between the caller's own terminal and a
// container process.
type terminal struct {
	host   console.Console // the caller's
	poller *console.Epoller
	master *console.EpollConsole // the container's
}

// hostConsole finds the caller's terminal: any of the standard streams, which
// may be redirected one by one, else the controlling terminal.
func hostConsole(stdio Stdio) (console.Console, error) {
	for _, f := range []*os.File{stdio.Err, stdio.Out, stdio.In} {
		c, err := console.ConsoleFromFile(f)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, console.ErrNotAConsole) {
			return nil, fmt.Errorf("unable to get console: %w", err)
		}
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return nil, err
	}
	c, err := console.ConsoleFromFile(tty)
	if err != nil {
		tty.Close()
		return nil, fmt.Errorf("unable to get console: %w", err)
	}
	return c, nil
}

// attach receives the master from the container's init over socket and relays
// it. The caller's terminal goes raw last: until then ^C still reaches us.
func (s *streams) attach(socket *os.File, stdio Stdio) error {
	t := s.term
	if err := t.receive(socket); err != nil {
		return err
	}
	go func() { _ = t.poller.Wait() }()
	go func() { _, _ = io.Copy(t.master, stdio.In) }()
	s.relay(stdio.Out, t.master)
	s.ours = append(s.ours, t.master)
	if err := t.host.SetRaw(); err != nil {
		return fmt.Errorf("failed to set the terminal from the stdin: %w", err)
	}
	return nil
}

func (t *terminal) receive(socket *os.File) error {
	file, err := receiveFile(socket)
	if err != nil {
		return err
	}
	master, err := console.ConsoleFromFile(file)
	if err != nil {
		file.Close()
		return err
	}
	// The line discipline would turn every newline of the output into CR LF,
	// and the caller's terminal, being raw, does it again.
	if err := console.ClearONLCR(master.Fd()); err != nil {
		return err
	}
	if t.poller, err = console.NewEpoller(); err != nil {
		return err
	}
	t.master, err = t.poller.Add(master)
	return err
}

// resize gives the container's terminal the size of the caller's.
func (t *terminal) resize() {
	if t == nil || t.master == nil {
		return
	}
	// The caller's terminal may be gone already (a SIGHUP on its way).
	_ = t.master.ResizeFrom(t.host)
}

// hangup ends the relays: reads of the master return once it is drained.
func (t *terminal) hangup() {
	if t.master != nil && t.poller != nil {
		_ = t.master.Shutdown(t.poller.CloseConsole)
	}
}

// receiveFile takes one descriptor off a Unix socket (unix(7), SCM_RIGHTS).
// libcontainer's init sends exactly one with the terminal's path as the data.
func receiveFile(socket *os.File) (*os.File, error) {
	data := make([]byte, unix.PathMax)
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, err := receiveRetry(int(socket.Fd()), data, oob)
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, fmt.Errorf("console socket: saw %d control messages, want 1", len(messages))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	if len(fds) != 1 {
		return nil, fmt.Errorf("console socket: saw %d descriptors, want 1", len(fds))
	}
	return os.NewFile(uintptr(fds[0]), string(data[:n])), nil
}

func receiveRetry(fd int, data, oob []byte) (n, oobn int, err error) {
	for {
		n, oobn, _, _, err = unix.Recvmsg(fd, data, oob, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			return n, oobn, err
		}
	}
}
