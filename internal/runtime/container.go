package runtime

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sysmon"
)

// Container is one that exists, as read from its saved state.
type Container struct {
	c    *libcontainer.Container
	host *Host
}

// Start lets the waiting init of a created container execute its program.
// notifyHost is the service manager's socket, from $NOTIFY_SOCKET, or "".
func (c *Container) Start(notifyHost string) error {
	status, err := c.c.Status()
	if err != nil {
		return err
	}
	switch status {
	case libcontainer.Created:
	case libcontainer.Stopped:
		return errors.New("cannot start a container that has stopped")
	case libcontainer.Running:
		return errors.New("cannot start an already running container")
	case libcontainer.Paused:
		return errors.New("cannot start a container in the paused state")
	}
	record, err := c.policy()
	if err != nil {
		return err
	}
	if record != nil {
		return c.startUnderPolicy(record)
	}
	n := newNotifier(filepath.Join(c.host.Root, c.c.ID()), notifyHost)
	if n != nil {
		if err := n.bind(); err != nil {
			return err
		}
	}
	if err := sysmon.Exact(c.c.Exec); err != nil || n == nil {
		return err
	}
	state, err := c.c.State()
	if err != nil {
		return err
	}
	return n.relay(state.InitProcessPid, state.InitProcessPid)
}

// Kill sends s to the container's init. all, an old flag, makes it no error
// that there is none.
func (c *Container) Kill(s unix.Signal, all bool) error {
	var restErr error
	rest := func() {}
	if s == unix.SIGKILL {
		rest, restErr = c.killRest()
	}
	err := c.c.Signal(s)
	if err == nil {
		rest()
		err = restErr
	}
	if all && errors.Is(err, libcontainer.ErrNotRunning) {
		return nil
	}
	return err
}

// Pause freezes all processes of the container.
func (c *Container) Pause() error { return hintCgroups("pause", c.c.Pause()) }

// Resume thaws them.
func (c *Container) Resume() error { return hintCgroups("resume", c.c.Resume()) }

// Processes lists the pids of the container, as this process sees them.
func (c *Container) Processes() ([]int, error) {
	pids, err := c.c.Processes()
	return pids, hintCgroups("ps", err)
}

// chdirBundle goes to where the container was created from.
func (c *Container) chdirBundle() error {
	bundle, _ := c.labels()
	if bundle == "" {
		return errors.New("bundle not found in labels")
	}
	return os.Chdir(bundle)
}
