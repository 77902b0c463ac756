package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/utils"

	"github.com/sage-sandbox/sage/internal/state"
)

// State is what the state and list commands print. Names, order and the empty
// owner of the former are runc's, which engines parse.
type State struct {
	Version     string            `json:"ociVersion"`
	ID          string            `json:"id"`
	Pid         int               `json:"pid"` // of init, in the caller's pid namespace; 0 once stopped
	Status      string            `json:"status"`
	Bundle      string            `json:"bundle"`
	Rootfs      string            `json:"rootfs"`
	Created     time.Time         `json:"created"` // UTC
	Annotations map[string]string `json:"annotations,omitempty"`
	Owner       string            `json:"owner"` // of the state directory
	// Exit says how a container under a policy ended, where sage knows more than
	// that it did. runc has no such field, and parsers of its form pass over it.
	Exit *state.Ending `json:"exit,omitempty"`
}

// State reads the container's status from the kernel, the rest from its record.
func (c *Container) State() (*State, error) {
	status, err := c.c.Status()
	if err != nil {
		return nil, fmt.Errorf("status for %s: %w", c.c.ID(), err)
	}
	saved, err := c.c.State()
	if err != nil {
		return nil, fmt.Errorf("state for %s: %w", c.c.ID(), err)
	}
	bundle, annotations := c.labels()
	pid := saved.InitProcessPid
	var exit *state.Ending
	if status == libcontainer.Stopped {
		pid, exit = 0, c.ending()
	}
	return &State{
		Version: saved.Config.Version, ID: saved.ID, Pid: pid, Status: status.String(),
		Bundle: bundle, Rootfs: saved.Config.Rootfs, Created: saved.Created, Annotations: annotations,
		Exit: exit,
	}, nil
}

// ending is what was written down by who saw the end, or else by who brought it
// about, or else what the cgroup tells. One that cannot be read is none.
func (c *Container) ending() *state.Ending {
	dir := c.host.stateDir(c.c.ID())
	e, err := state.LoadEnding(dir)
	if e == nil && err == nil {
		e, _ = state.Marked(dir)
	}
	if e == nil {
		e = c.unseen()
	}
	return e
}

func (c *Container) labels() (bundle string, annotations map[string]string) {
	return utils.Annotations(c.c.Config().Labels)
}

// List returns the state of every container below the root, and an error for
// each that could not be read: one broken container must not hide the others.
// The error is fs.ErrNotExist for a root that is not there.
func (h *Host) List() (states []State, broken []error, err error) {
	entries, err := os.ReadDir(h.Root)
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		one, err := h.listed(entry)
		switch {
		case err == nil:
			states = append(states, *one)
		case !errors.Is(err, fs.ErrNotExist):
			broken = append(broken, err)
		}
	}
	return states, broken, nil
}

func (h *Host) listed(entry os.DirEntry) (*State, error) {
	info, err := entry.Info()
	if err != nil {
		return nil, err // deleted meanwhile, if it is fs.ErrNotExist
	}
	c, err := h.Load(entry.Name())
	if err != nil {
		return nil, fmt.Errorf("load container %s: %w", entry.Name(), err)
	}
	one, err := c.State()
	if err != nil {
		return nil, err
	}
	one.Owner = owner(info)
	return one, nil
}

func owner(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	uid := strconv.FormatUint(uint64(stat.Uid), 10)
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return "#" + uid
}
