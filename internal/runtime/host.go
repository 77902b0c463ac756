package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	// Registers the code that writes device rules to cgroups; without it
	// libcontainer refuses every container with a device rule.
	_ "github.com/opencontainers/cgroups/devices"
	"github.com/opencontainers/cgroups/systemd"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/sirupsen/logrus"

	"github.com/moby/sys/userns"
)

// A build against a libcontainer without sage's patch stops here.
const _ = configs.SagePatch

var errEmptyID = errors.New("container id cannot be empty")

// Host says where containers keep their state and how their cgroups are
// driven. It is what the global flags of the command line describe.
type Host struct {
	Root          string // absolute path of the state directory
	SystemdCgroup bool
	// Config is the path of the host's configuration, and ConfigAsked whether
	// the caller named it, so that it must be there.
	Config      string
	ConfigAsked bool
	// Rootless forces the handling of cgroup permission errors as for an
	// unprivileged user; nil means detect.
	Rootless *bool
}

// Load returns the container id, or libcontainer's "container does not exist".
func (h *Host) Load(id string) (*Container, error) {
	if id == "" {
		return nil, errEmptyID
	}
	c, err := libcontainer.Load(h.Root, id)
	if err != nil {
		return nil, err
	}
	return &Container{c: c, host: h}, nil
}

// rootlessCgroups says whether a cgroup that cannot be written is to be lived
// with, which is so for everyone but the real root.
func (h *Host) rootlessCgroups() bool {
	switch {
	case h.Rootless != nil:
		return *h.Rootless
	case os.Geteuid() != 0:
		return true
	case !userns.RunningInUserNS():
		return false
	case h.SystemdCgroup:
		return h.systemdOwnerIsUser()
	default:
		// Root of a user namespace with cgroupfs: whether the cgroup is
		// delegated shows only on writing to it.
		return true
	}
}

// systemdOwnerIsUser asks, for root in a user namespace, whose systemd
// answers. Without an answer it is taken for root's own.
func (h *Host) systemdOwnerIsUser() bool {
	uid, err := systemd.DetectUID()
	if err != nil {
		logrus.Debugf("cannot detect the owner of the systemd instance, assuming root: %v", err)
		return false
	}
	return uid != 0
}

// HonorXDGRuntimeDir says whether containers of this user belong under
// $XDG_RUNTIME_DIR rather than /run: for an unprivileged user, and for root of
// a user namespace that did not log in as root. user is the value of $USER,
// set whether it was there at all.
func HonorXDGRuntimeDir(user string, set bool) bool {
	if os.Geteuid() != 0 {
		return true
	}
	return userns.RunningInUserNS() && (!set || user != "root")
}

// hintCgroups adds the likely cause to a failure that comes from a cgroup
// which is not delegated.
func hintCgroups(op string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w (%s needs full access to the container's cgroup)", err, op)
	}
	return err
}
