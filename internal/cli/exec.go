package cli

import (
	"fmt"

	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/runtime"
)

// execFailed is exec's status for a failure of ours: 1 could be the program's.
const execFailed = 255

func (c *command) exec() cli.Command {
	return cli.Command{
		Name:  "exec",
		Usage: "execute new process inside the container",
		ArgsUsage: `<container-id> <command> [command options]  || -p process.json <container-id>

Runs <command> beside the container's own program, with the same root, user,
environment and limits unless the options say otherwise. With -p, all of that
comes from a file, and there is no <command>:

       # sage-runtime exec --env DEBUG=1 web1 /bin/sh -c 'id; env'`,
		Flags:          execFlags(),
		SkipArgReorder: true, // options after the command are the command's
		Action: c.action(atLeastOne, func(ctx *cli.Context) error {
			status, err := c.execStatus(ctx)
			if err != nil {
				return failure{fmt.Errorf("exec failed: %w", err), execFailed}
			}
			return exitStatus(status)
		}),
	}
}

func execFlags() []cli.Flag {
	return []cli.Flag{
		cli.StringFlag{Name: "console-socket", Usage: consoleUsage},
		cli.StringFlag{Name: "pidfd-socket", Usage: "path to an AF_UNIX socket which will receive a file descriptor referencing the exec process"},
		cli.StringFlag{Name: "cwd", Usage: "current working directory in the container"},
		cli.StringSliceFlag{Name: "env, e", Usage: "set environment variables"},
		cli.BoolFlag{Name: "tty, t", Usage: "allocate a pseudo-TTY"},
		cli.StringFlag{Name: "user, u", Usage: "UID (format: <uid>[:<gid>])"},
		cli.Int64SliceFlag{Name: "additional-gids, g", Usage: "additional gids"},
		cli.StringFlag{Name: "process, p", Usage: "path to the process.json"},
		cli.BoolFlag{Name: "detach, d", Usage: "detach from the container's process"},
		cli.StringFlag{Name: "pid-file", Usage: pidFileUsage},
		cli.StringFlag{Name: "process-label", Usage: "set the asm process label for the process commonly used with selinux"},
		cli.StringFlag{Name: "apparmor", Usage: "set the apparmor profile for the process"},
		cli.BoolFlag{Name: "no-new-privs", Usage: "set the no new privileges value for the process"},
		cli.StringSliceFlag{Name: "cap, c", Usage: "add a capability to the bounding set for the process"},
		cli.IntFlag{Name: "preserve-fds", Usage: preserveUsage},
		cli.StringSliceFlag{Name: "cgroup", Usage: "run the process in an (existing) sub-cgroup(s). Format is [<controller>:]<cgroup>."},
		cli.BoolFlag{Name: "ignore-paused", Usage: "allow exec in a paused container"},
	}
}

func (c *command) execStatus(ctx *cli.Context) (int, error) {
	launch, err := c.launch(ctx)
	if err != nil {
		return -1, err
	}
	return launch.Exec(execOptions(ctx))
}

func execOptions(ctx *cli.Context) runtime.ExecOptions {
	o := runtime.ExecOptions{
		ProcessFile:  ctx.String("process"),
		Args:         ctx.Args().Tail(),
		Cwd:          ctx.String("cwd"),
		Env:          ctx.StringSlice("env"),
		Tty:          ctx.Bool("tty"),
		User:         ctx.String("user"),
		Groups:       ctx.Int64Slice("additional-gids"),
		AppArmor:     ctx.String("apparmor"),
		SelinuxLabel: ctx.String("process-label"),
		Caps:         ctx.StringSlice("cap"),
		Cgroups:      ctx.StringSlice("cgroup"),
		IgnorePaused: ctx.Bool("ignore-paused"),
	}
	if ctx.IsSet("no-new-privs") {
		o.NoNewPrivs = new(ctx.Bool("no-new-privs"))
	}
	return o
}
