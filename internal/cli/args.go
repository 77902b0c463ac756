package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli"
)

// arity is how many arguments a command takes.
type arity struct{ least, most int }

const unbounded = -1

var atLeastOne = arity{1, unbounded}

func exactly(n int) arity { return arity{n, n} }

func (a arity) check(name string, n int) error {
	program := os.Args[0]
	switch {
	case a.least == a.most && n != a.least:
		return fmt.Errorf("%s: %q requires exactly %d argument(s)", program, name, a.least)
	case n < a.least:
		return fmt.Errorf("%s: %q requires a minimum of %d argument(s)", program, name, a.least)
	case a.most != unbounded && n > a.most:
		return fmt.Errorf("%s: %q requires a maximum of %d argument(s)", program, name, a.most)
	}
	return nil
}

// action checks the number of arguments before f, and shows the command's help
// where it is wrong.
func (c *command) action(a arity, f func(*cli.Context) error) cli.ActionFunc {
	return func(ctx *cli.Context) error {
		// A command with commands below it is an app of its own to urfave/cli.
		if err := a.check(cmp.Or(ctx.Command.Name, ctx.App.Name), ctx.NArg()); err != nil {
			fmt.Fprint(c.env.Out, "Incorrect Usage.\n\n")
			_ = cli.ShowCommandHelp(ctx, ctx.Command.Name)
			return err
		}
		return f(ctx)
	}
}

// absolute keeps a path valid when the command changes into the bundle; ""
// stays "".
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}

// triState reads the value of --rootless; nil is for sage to find out.
func triState(value string) (*bool, error) {
	switch strings.ToLower(value) {
	case "", "auto":
		return nil, nil
	default:
		set, err := strconv.ParseBool(value)
		return new(set), err
	}
}

const (
	idArg = `<container-id>

<container-id> names the container among those of the same --root.`

	consoleUsage  = "path to an AF_UNIX socket which will receive a file descriptor referencing the master end of the console's pseudoterminal"
	preserveUsage = "Pass N additional file descriptors to the container (stdio + $LISTEN_FDS + N in total)"
	pidFileUsage  = "specify the file to write the process id to"
	noPivotUsage  = "do not use pivot root to jail process inside rootfs.  This should be used whenever the rootfs is on top of a ramdisk"
	keyringUsage  = "do not create a new session keyring for the container.  This will cause the container to inherit the calling processes session key"
)

func bundleFlag() cli.Flag {
	return cli.StringFlag{Name: "bundle, b", Usage: "path to the root of the bundle directory, defaults to the current directory"}
}

func formatFlag() cli.Flag {
	return cli.StringFlag{Name: "format, f", Value: "table", Usage: "select one of: table or json"}
}
