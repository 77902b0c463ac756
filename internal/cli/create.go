package cli

import (
	"fmt"

	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/runtime"
)

func (c *command) create() cli.Command {
	return cli.Command{
		Name:      "create",
		Usage:     "create a container",
		ArgsUsage: idArg,
		Description: `Makes a container from a bundle and leaves its process waiting: "start" lets it
   execute the program that the bundle's config.json names in process.args.`,
		Flags: createFlags(),
		Action: c.action(exactly(1), func(ctx *cli.Context) error {
			launch, err := c.launch(ctx)
			if err != nil {
				return err
			}
			if err := launch.Create(); err != nil {
				return fmt.Errorf("%s create failed: %w", c.program, err)
			}
			return nil
		}),
	}
}

func createFlags() []cli.Flag {
	return []cli.Flag{
		bundleFlag(),
		cli.StringFlag{Name: "console-socket", Usage: consoleUsage},
		cli.StringFlag{Name: "pidfd-socket", Usage: "path to an AF_UNIX socket which will receive a file descriptor referencing the init process"},
		cli.StringFlag{Name: "pid-file", Usage: pidFileUsage},
		cli.BoolFlag{Name: "no-pivot", Usage: noPivotUsage},
		cli.BoolFlag{Name: "no-new-keyring", Usage: keyringUsage},
		cli.IntFlag{Name: "preserve-fds", Usage: preserveUsage},
	}
}

// launch reads the flags that create, run, restore and exec share; a command
// that lacks one gets its zero value.
func (c *command) launch(ctx *cli.Context) (*runtime.Launch, error) {
	pidFile, err := absolute(ctx.String("pid-file"))
	if err != nil {
		return nil, err
	}
	return &runtime.Launch{
		Host: &c.host, ID: ctx.Args().First(), Bundle: ctx.String("bundle"),
		Stdio: c.stdio(), Getenv: c.getenv,
		PidFile:       pidFile,
		ConsoleSocket: ctx.String("console-socket"),
		PidfdSocket:   ctx.String("pidfd-socket"),
		PreserveFDs:   ctx.Int("preserve-fds"),
		Detach:        ctx.Bool("detach"),
		Keep:          ctx.Bool("keep"),
		NoSubreaper:   ctx.Bool("no-subreaper"),
		NoPivot:       ctx.Bool("no-pivot"),
		NoNewKeyring:  ctx.Bool("no-new-keyring"),
	}, nil
}
