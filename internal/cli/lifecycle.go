package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/runtime"
)

// onContainer is the action of a command whose one argument is a container
// that exists.
func (c *command) onContainer(f func(*cli.Context, *runtime.Container) error) cli.ActionFunc {
	return c.action(exactly(1), c.loaded(f))
}

func (c *command) loaded(f func(*cli.Context, *runtime.Container) error) func(*cli.Context) error {
	return func(ctx *cli.Context) error {
		container, err := c.host.Load(ctx.Args().First())
		if err != nil {
			return err
		}
		return f(ctx, container)
	}
}

func (c *command) start() cli.Command {
	return cli.Command{
		Name:        "start",
		Usage:       "executes the user defined process in a created container",
		ArgsUsage:   idArg,
		Description: "Lets the waiting process of a created container execute its program.",
		Action: c.onContainer(func(_ *cli.Context, container *runtime.Container) error {
			return container.Start(c.getenv("NOTIFY_SOCKET"))
		}),
	}
}

func (c *command) delete() cli.Command {
	return cli.Command{
		Name:      "delete",
		Usage:     "delete any resources held by the container often used with detached container",
		ArgsUsage: idArg,
		Description: `Frees the cgroup and the state of a container that has stopped. With --force it
   may run, or not exist, or be what a killed create has left.`,
		Flags: []cli.Flag{
			cli.BoolFlag{Name: "force, f", Usage: "Forcibly deletes the container if it is still running (uses SIGKILL)"},
		},
		Action: c.action(exactly(1), func(ctx *cli.Context) error {
			return c.host.Delete(ctx.Args().First(), ctx.Bool("force"))
		}),
	}
}

func (c *command) kill() cli.Command {
	return cli.Command{
		Name:  "kill",
		Usage: "kill sends the specified signal (default: SIGTERM) to the container's init process",
		ArgsUsage: `<container-id> [signal]

[signal] is a number, or a name such as KILL, SIGKILL or kill.`,
		Flags: []cli.Flag{
			cli.BoolFlag{Name: "all, a", Usage: "(obsoleted, do not use)", Hidden: true},
		},
		Action: c.action(arity{1, 2}, c.loaded(func(ctx *cli.Context, container *runtime.Container) error {
			signal, err := parseSignal(ctx.Args().Get(1))
			if err != nil {
				return err
			}
			return container.Kill(signal, ctx.Bool("all"))
		})),
	}
}

func parseSignal(s string) (unix.Signal, error) {
	if s == "" {
		return unix.SIGTERM, nil
	}
	if n, err := strconv.Atoi(s); err == nil {
		return unix.Signal(n), nil
	}
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG")
	signal := unix.SignalNum(name)
	if signal == 0 {
		return 0, fmt.Errorf("unknown signal %q", s)
	}
	return signal, nil
}

func (c *command) pause() cli.Command {
	return cli.Command{
		Name:        "pause",
		Usage:       "pause suspends all processes inside the container",
		ArgsUsage:   idArg,
		Description: `Freezes the container's cgroup. "sage-runtime list" shows which are paused.`,
		Action: c.onContainer(func(_ *cli.Context, container *runtime.Container) error {
			return container.Pause()
		}),
	}
}

func (c *command) resume() cli.Command {
	return cli.Command{
		Name:        "resume",
		Usage:       "resumes all processes that have been previously paused",
		ArgsUsage:   idArg,
		Description: "Thaws the container's cgroup.",
		Action: c.onContainer(func(_ *cli.Context, container *runtime.Container) error {
			return container.Resume()
		}),
	}
}
