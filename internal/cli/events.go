package cli

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/runtime"
)

func (c *command) events() cli.Command {
	return cli.Command{
		Name:      "events",
		Usage:     "display container events such as OOM notifications, cpu, memory, and IO usage statistics",
		ArgsUsage: idArg,
		Description: `Prints one JSON object a line: the container's counters every 5 seconds, or as
   --interval says, and a record when the kernel kills a process for want of memory.`,
		Flags: []cli.Flag{
			cli.DurationFlag{Name: "interval", Value: 5 * time.Second, Usage: "set the stats collection interval"},
			cli.BoolFlag{Name: "stats", Usage: "display the container's stats then exit"},
		},
		Action: c.onContainer(func(ctx *cli.Context, container *runtime.Container) error {
			enc := json.NewEncoder(c.env.Out)
			interval := ctx.Duration("interval")
			if interval <= 0 {
				return errors.New("duration interval must be greater than 0")
			}
			if !ctx.Bool("stats") {
				emit := func(e *runtime.Event) error { return enc.Encode(e) }
				return container.Events(context.Background(), interval, emit) //nolint:forbidigo // ends with the container, or with us
			}
			event, err := container.Stats()
			if err != nil {
				return err
			}
			return enc.Encode(event)
		}),
	}
}
