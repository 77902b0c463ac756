package runtime

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/audit"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/internal/sysmon"
)

// killPatience is how long a killed init may take to be gone. It can sit in an
// uninterruptible sleep, on a dead network file system for one.
const killPatience = 10 * time.Second

var errInitRunning = errors.New("container init still running")

// Delete removes all that a container holds. A container that runs is refused,
// or killed with force. With force, one that does not exist is no error.
func (h *Host) Delete(id string, force bool) error {
	// What cannot be read is removed like everything else.
	record, _ := state.Load(filepath.Join(h.Root, id))
	disk, end := h.findDisk(id), h.untold(record)
	err := incomplete(h.remove(id, force))
	if err == nil {
		err = h.endNetwork(id)
	}
	if err == nil {
		err = disk.release()
	}
	if err == nil && record != nil {
		if end != nil {
			if err := audit.Append(record.Audit, audit.Ended(id, record.Digest, 0, *end)); err != nil {
				logrus.Warn(err)
			}
		}
		if err := audit.Append(record.Audit, audit.Event{Event: audit.Delete, ID: id, Digest: record.Digest}); err != nil {
			logrus.Warn(err)
		}
	}
	return err
}

// incomplete names the failure in which something of the container still runs
// (S-137): init, or what is in its cgroup, which cannot be removed for it.
func incomplete(err error) error {
	if errors.Is(err, errInitRunning) || errors.Is(err, unix.EBUSY) {
		return errcode.Wrap(errcode.CleanupIncomplete, "delete the container", err)
	}
	return err
}

func (h *Host) remove(id string, force bool) error {
	c, err := h.Load(id)
	if errors.Is(err, libcontainer.ErrNotExist) {
		missing := err
		c, err = h.deletePending(id, force)
		if c == nil && (err == nil || errors.Is(err, errBusy)) && !force {
			return missing
		}
		if c == nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if force {
		// Even when stopped: without a pid namespace of its own, processes may
		// be left in its cgroup.
		return c.killAndDestroy()
	}
	status, err := c.c.Status()
	if err != nil {
		return err
	}
	if status == libcontainer.Stopped {
		return sysmon.Exact(c.c.Destroy)
	}
	if status == libcontainer.Created {
		return c.killAndDestroy()
	}
	return fmt.Errorf("cannot delete container %s that is not stopped: %s", id, status)
}

func (c *Container) killAndDestroy() error {
	rest, _ := c.killRest()
	_ = c.c.Signal(unix.SIGKILL)
	rest()
	if !waitUntil(killPatience, func() bool { return c.c.Signal(unix.Signal(0)) != nil }) {
		return errInitRunning
	}
	return sysmon.Exact(c.c.Destroy)
}

// waitUntil polls done until it is true or patience is over, ever more slowly:
// a killed process is mostly gone within a millisecond, and a delete that
// always slept its tenth of a second would be most of a container's cost.
func waitUntil(patience time.Duration, done func() bool) bool {
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if done() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause) //nolint:forbidigo // a process that is not our child has no event we could wait on without a pidfd
	}
}
