package runtime

import (
	"fmt"
	"os"

	"github.com/moby/sys/userns"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/specconv"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/sirupsen/logrus"
)

// CriuOpts is how CRIU is to dump or restore a container.
type CriuOpts = libcontainer.CriuOpts

// PageServer is where CRIU sends memory pages to.
type PageServer = libcontainer.CriuPageServerInfo

// Checkpoint dumps a running container, which is then gone unless the options
// say that it goes on. prepare gives the options, and makes the folders that
// they name; it is not called for a container that cannot be dumped.
func (c *Container) Checkpoint(prepare func() (*CriuOpts, error)) error {
	if err := c.compatOnly("checkpoint"); err != nil {
		return err
	}
	status, err := c.c.Status()
	if err != nil {
		return err
	}
	if status == libcontainer.Created || status == libcontainer.Stopped {
		return fmt.Errorf("Container cannot be checkpointed in %s state", status)
	}
	opts, err := prepare()
	if err != nil {
		return err
	}
	if err := c.c.Checkpoint(opts); err != nil {
		return err
	}
	if !opts.LeaveRunning && !opts.PreDump {
		c.host.destroy(c.c, nil) // for compat, which has no disk quota
	}
	return nil
}

// WarnRootless says what nobody has tried.
func WarnRootless(op string) {
	if os.Geteuid() != 0 || userns.RunningInUserNS() {
		logrus.Warnf("%s is untested with rootless containers", op)
	}
}

// ExampleSpec is the bundle configuration that the spec command writes.
func ExampleSpec(rootless bool) *specs.Spec {
	s := specconv.Example()
	if rootless {
		specconv.ToRootless(s)
	}
	return s
}
