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
	if status == libcontainer.Stopped {
		pid = 0
	}
	return &State{
		Version: saved.Config.Version, ID: saved.ID, Pid: pid, Status: status.String(),
		Bundle: bundle, Rootfs: saved.Config.Rootfs, Created: saved.Created, Annotations: annotations,
	}, nil
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
		state, err := h.listed(entry)
		switch {
		case err == nil:
			states = append(states, *state)
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
	state, err := c.State()
	if err != nil {
		return nil, err
	}
	state.Owner = owner(info)
	return state, nil
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
