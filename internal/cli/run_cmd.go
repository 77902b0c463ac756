package cli

import (
	"fmt"

	"github.com/urfave/cli"
)

func (c *command) run() cli.Command {
	return cli.Command{
		Name:      "run",
		Usage:     "create and run a container",
		ArgsUsage: idArg,
		Description: `Makes a container from a bundle, starts it, and unless detached waits for its
   process, exits with its status and removes the container.`,
		Flags: append(createFlags(),
			cli.BoolFlag{Name: "detach, d", Usage: "detach from the container's process"},
			cli.BoolFlag{Name: "keep", Usage: "do not delete the container after it exits"},
			cli.BoolFlag{Name: "no-subreaper", Usage: "disable the use of the subreaper used to reap reparented processes"},
		),
		Action: c.action(exactly(1), func(ctx *cli.Context) error {
			launch, err := c.launch(ctx)
			if err != nil {
				return err
			}
			status, err := launch.Run()
			if err != nil {
				return fmt.Errorf("%s run failed: %w", c.program, err)
			}
			return exitStatus(status)
		}),
	}
}
