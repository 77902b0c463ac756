package cli

import (
	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/runtime"
)

// watch is what create and run leave behind for a container that has a timeout,
// or limits that the kernel does not hold; nobody calls it by hand.
func (c *command) watch() cli.Command {
	return cli.Command{
		Name:      runtime.WatchVerb,
		Usage:     "end a container when its time is up or it is over a limit",
		ArgsUsage: "sampler|guard <container-id>",
		Hidden:    true,
		Action: c.action(exactly(2), func(ctx *cli.Context) error {
			return c.host.Watch(ctx.Args().Get(0), ctx.Args().Get(1))
		}),
	}
}
