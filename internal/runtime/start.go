package runtime

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/sage-sandbox/sage/internal/audit"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/fault"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/internal/sysmon"
)

// policy returns what is recorded of the container's policy, nil for one
// without. A container with a filter of sage's but no record is an error: it
// would go on as if it were one without policy.
func (c *Container) policy() (*state.Record, error) {
	record, err := state.Load(filepath.Join(c.host.Root, c.c.ID()))
	if !errors.Is(err, fs.ErrNotExist) {
		return record, err
	}
	if config := c.c.Config(); len(config.SageFilter) > 0 {
		return nil, errcode.Wrap(errcode.StateInvalid, "read the policy of container "+c.c.ID(), err)
	}
	return nil, nil
}

// startUnderPolicy starts the program after a last look: between create and
// here an engine has attached its network.
func (c *Container) startUnderPolicy(record *state.Record) error {
	saved, err := c.c.State()
	if err != nil {
		return err
	}
	pid := saved.InitProcessPid
	if err := cmp.Or(checkPosture(record.Posture, pid), checkLimitsAgain(record, saved), checkDiskAgain(record, pid), c.host.checkNetwork(record, pid)); err != nil {
		return errcode.Wrap(errcode.EnforcementFailed, "read back", err)
	}
	if err := c.host.beforeStart(record, pid, true); err != nil {
		return err
	}
	if err := cmp.Or(c.host.attendStart(record), fault.At("start")); err != nil {
		return err
	}
	return sysmon.Exact(c.c.Exec)
}

// beforeStart closes the network of a container that is to have none, and opens
// the way out of one that has a proxy. attached says that somebody could have
// given it a network since it was made.
func (h *Host) beforeStart(record *state.Record, pid int, attached bool) error {
	from, err := h.openNetwork(record, pid, attached)
	if err != nil {
		return err
	}
	return auditStart(record, pid, from)
}

// auditStart has the place that the proxy dials from, "" without one.
func auditStart(record *state.Record, pid int, from string) error {
	e := audit.Event{Event: audit.Start, ID: record.ID, Digest: record.Digest, Pid: pid}
	if from != "" {
		e.Detail = map[string]string{"dials_from": from}
	}
	return audit.Append(record.Audit, e)
}
