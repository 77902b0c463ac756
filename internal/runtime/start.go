package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/audit"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/fault"
	"github.com/sage-sandbox/sage/internal/state"
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
	if err := cmp.Or(checkPosture(record.Posture, pid), checkLimitsAgain(record, saved), checkDiskAgain(record, pid)); err != nil {
		return errcode.Wrap(errcode.EnforcementFailed, "read back", err)
	}
	if err := beforeStart(record, pid); err != nil {
		return err
	}
	if err := cmp.Or(c.host.attendStart(record), fault.At("start")); err != nil {
		return err
	}
	return c.c.Exec()
}

// beforeStart closes the network of a container that is to have none.
func beforeStart(record *state.Record, pid int) error {
	if record.Links {
		if err := closeNetwork(pid, record.Inet); err != nil {
			return errcode.Wrap(errcode.EnforcementFailed, "close the network namespace", err)
		}
	}
	return audit.Append(record.Audit, audit.Event{Event: audit.Start, ID: record.ID, Digest: record.Digest, Pid: pid})
}

// closeNetwork puts down every link but lo in the network namespace of pid.
// Where there is one and sockets are possible, it refuses a namespace in which
// something of the host listens: Docker's resolver on a network of the user's
// own would carry names out (attacks.md 9). To look for that takes milliseconds:
// the kernel walks all of its hash tables.
func closeNetwork(pid int, inet bool) error {
	links, err := putLinksDown(pid)
	if err != nil || links == 0 || !inet {
		return err
	}
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6", "raw", "raw6"} {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/net/" + table)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
			return err
		}
		if n := strings.Count(string(data), "\n"); n > 1 {
			return fmt.Errorf("saw %d %s sockets of others in it, as Docker's resolver has on a network of its user's own; want none: use the default network, or --network none", n-1, table)
		}
	}
	return nil
}

// putLinksDown says how many there were.
func putLinksDown(pid int) (int, error) {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return 0, err
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return 0, err
	}
	defer handle.Close()
	links, err := handle.LinkList()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, link := range links {
		if link.Attrs().Flags&net.FlagLoopback != 0 {
			continue
		}
		if err := handle.LinkSetDown(link); err != nil {
			return 0, fmt.Errorf("link %s: %w", link.Attrs().Name, err)
		}
		n++
	}
	return n, nil
}
