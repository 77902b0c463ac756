package cli

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/setup"
)

func (c *command) setup() cli.Command {
	return cli.Command{
		Name:  "setup",
		Usage: "prepare this host for hard limits, or take that back",
		Description: `Makes what is missing of: a file system with project quotas, the cgroup root with
   its controllers, the directory for audit files, and the host's configuration
   (--config), which is never written over. Without --quota-image and --quota-mount it
   prepares what the configuration names. Called twice it does nothing; on a failure it
   takes back what it made. The exit status is 1 where the configuration lacks a line.

   # sage-runtime setup --quota-image /var/lib/sage/quota.img --size 20G --persist`,
		Flags: []cli.Flag{
			cli.StringFlag{Name: "quota-image", Usage: "file for the quota file system, made if it is not there"},
			cli.StringFlag{Name: "size", Value: "20G", Usage: "size of a new image"},
			cli.BoolFlag{Name: "sparse", Usage: "do not take the image's space now; when the disk is full, containers get EIO"},
			cli.StringFlag{Name: "mount", Usage: "where to mount the image (default: linux_quota_mount of the configuration, or " + setup.DefaultMount + ")"},
			cli.BoolFlag{Name: "persist", Usage: "add a line to /etc/fstab, so that the image is mounted at each boot"},
			cli.StringFlag{Name: "quota-mount", Usage: "a mounted XFS with prjquota, to be used as it is"},
			cli.StringFlag{Name: "cgroup-root", Usage: "(default: linux_cgroup_root of the configuration, or " + setup.DefaultCgroup + ")"},
			cli.StringFlag{Name: "audit-dir", Usage: "(default: audit_dir of the configuration, or " + setup.DefaultAudit + ")"},
			cli.StringFlag{Name: "state", Value: setup.DefaultRecord, Usage: "file in which setup keeps what it made"},
			cli.BoolFlag{Name: "undo", Usage: "take back what setup made, and nothing else"},
			cli.BoolFlag{Name: "dry-run", Usage: "say what would be done"},
		},
		Action: c.action(exactly(0), c.doSetup),
	}
}

func (c *command) doSetup(ctx *cli.Context) error {
	o, err := c.setupOptions(ctx)
	if err != nil {
		return err
	}
	if ctx.Bool("undo") {
		return setup.Undo(o, c.printLine)
	}
	// ^C is a failure like another: what was made is taken back.
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM) //nolint:forbidigo // urfave/cli v1 hands none down
	defer cancel()
	ready, err := setup.Run(stop, o, c.printLine)
	if err != nil {
		return err
	}
	if !ready {
		return exitStatus(1) // what is lacking is said in what was printed
	}
	if !o.DryRun {
		fmt.Fprintln(c.env.Out, `"sage-runtime check" says what this host can enforce now`)
	}
	return nil
}

func (c *command) setupOptions(ctx *cli.Context) (setup.Options, error) {
	o := setup.Options{
		Image: ctx.String("quota-image"), Sparse: ctx.Bool("sparse"), Mount: ctx.String("mount"), Persist: ctx.Bool("persist"),
		Cgroup: ctx.String("cgroup-root"), Audit: ctx.String("audit-dir"), Record: ctx.String("state"),
		Config: c.host.Config, DryRun: ctx.Bool("dry-run"),
	}
	if mount := ctx.String("quota-mount"); mount != "" {
		if o.Image != "" || o.Mount != "" {
			return o, errors.New("setup: saw --quota-mount beside --quota-image or --mount, want it alone: it is for a mount that is there")
		}
		o.Mount = mount
	}
	for _, path := range []*string{&o.Image, &o.Mount, &o.Audit, &o.Record} {
		var err error
		if *path, err = absolute(*path); err != nil {
			return o, err
		}
	}
	var err error
	o.Size, err = setup.ParseSize(ctx.String("size"))
	return o, err
}

func (c *command) printLine(l setup.Line) {
	fmt.Fprintf(c.env.Out, "%-11s %-10s %s\n", l.Part, l.Did, l.What)
}
