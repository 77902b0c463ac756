package runtime

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/opencontainers/runc/libcontainer/system"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

const (
	notifyDir     = "notify"      // below the container's state directory
	notifyName    = "notify.sock" // the same inside and outside
	notifyMount   = "/run/notify" // where the container sees notifyDir
	barrierWait   = 30 * time.Second
	livenessCheck = 100 * time.Millisecond
)

// notifier passes sd_notify(3) messages from the container to the service
// manager that started us: the container talks to a socket of ours, since the
// manager's own cannot be mounted into it safely, and learns only READY=1 is
// worth passing on.
type notifier struct {
	host string // the manager's socket, from $NOTIFY_SOCKET
	path string // ours
	sock *net.UnixConn
}

// newNotifier returns nil where no service manager listens.
func newNotifier(stateDir, host string) *notifier {
	if host == "" {
		return nil
	}
	return &notifier{host: host, path: filepath.Join(stateDir, notifyDir, notifyName)}
}

// mount makes the socket's directory part of the container. The directory is
// mounted, not the socket: the socket is bound only at start.
func (n *notifier) mount(s *specs.Spec) {
	s.Mounts = append(s.Mounts, specs.Mount{
		Destination: notifyMount,
		Source:      filepath.Dir(n.path),
		Options:     []string{"bind", "nosuid", "noexec", "nodev", "ro"},
	})
	s.Process.Env = append(s.Process.Env, "NOTIFY_SOCKET="+filepath.Join(notifyMount, notifyName))
}

func (n *notifier) mkdir() error { return os.Mkdir(filepath.Dir(n.path), 0o755) }

func (n *notifier) bind() error {
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.path, Net: "unixgram"})
	if err != nil {
		return err
	}
	// Any user of the container may be the one that is ready.
	if err := os.Chmod(n.path, 0o777); err != nil {
		sock.Close()
		return err
	}
	n.sock = sock
	return nil
}

// relay waits until the container says that it is ready, and tells the manager
// with mainPID as the process to watch. It gives up when watch, a pid, is gone.
func (n *notifier) relay(watch, mainPID int) error {
	manager, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.host, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer manager.Close()
	line, err := n.awaitReady(watch)
	if err != nil || line == nil {
		return err
	}
	for _, message := range []string{string(line) + "\n", "MAINPID=" + strconv.Itoa(mainPID) + "\n"} {
		if _, err := manager.Write([]byte(message)); err != nil {
			return err
		}
	}
	return barrier(manager)
}

// awaitReady returns the READY= line, or nil when process watch has ended.
func (n *notifier) awaitReady(watch int) ([]byte, error) {
	buf := make([]byte, 4096)
	for {
		if err := n.sock.SetReadDeadline(time.Now().Add(livenessCheck)); err != nil {
			return nil, err
		}
		size, err := n.sock.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// A zombie is gone, too: it can be our own child, and we are here.
			stat, err := system.Stat(watch)
			if err != nil || stat.State == system.Zombie || stat.State == system.Dead {
				return nil, nil
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range bytes.SplitSeq(buf[:size], []byte{'\n'}) {
			if bytes.HasPrefix(line, []byte("READY=")) {
				return line, nil
			}
		}
	}
}

// barrier returns once the manager has read all that was sent before, as
// sd_notify_barrier(3) (systemd 246) does it: the manager closes the pipe that
// came with BARRIER=1. An older manager never does.
func barrier(manager *net.UnixConn) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	err = sendFile(manager, "BARRIER=1", w)
	w.Close()
	if err != nil {
		return fmt.Errorf("sd_notify barrier: %w", err)
	}
	if err := r.SetReadDeadline(time.Now().Add(barrierWait)); err != nil {
		return err
	}
	_, err = r.Read(make([]byte, 1))
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		logrus.Warnf("no answer to the sd_notify barrier within %v, going on", barrierWait)
		return nil
	case err == nil:
		return errors.New("sd_notify barrier: unexpected data on the pipe")
	default:
		return err
	}
}

// sendFile sends a descriptor beside the message. WriteMsgUnix cannot: it
// takes an address for datagram sockets, and refuses one on a connected socket.
func sendFile(conn *net.UnixConn, message string, f *os.File) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		sendErr = unix.Sendmsg(int(fd), []byte(message), unix.UnixRights(int(f.Fd())), nil, 0)
		return !errors.Is(sendErr, unix.EAGAIN)
	})
	return errors.Join(err, sendErr)
}
