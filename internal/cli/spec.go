package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/runtime"
	"github.com/sage-sandbox/sage/spec"
)

func (c *command) spec() cli.Command {
	return cli.Command{
		Name:      "spec",
		Usage:     "create a new specification file",
		ArgsUsage: "",
		Description: `Writes a "config.json" to start from: it runs sh in a terminal, in a root
   filesystem named rootfs, with a few capabilities. For example, a container that
   says hello:

       mkdir -p hello/rootfs/bin
       cp /bin/busybox hello/rootfs/bin/
       cd hello
       sage-runtime spec
       sed -i 's;"sh";"/bin/busybox", "echo", "hello";' config.json
       sage-runtime run container1

   With --rootless the container can be run by an unprivileged user.`,
		Flags: []cli.Flag{
			cli.StringFlag{Name: "bundle, b", Usage: "path to the root of the bundle directory"},
			cli.BoolFlag{Name: "rootless", Usage: "generate a configuration for a rootless container"},
		},
		Action: c.action(exactly(0), func(ctx *cli.Context) error {
			return writeSpec(filepath.Join(ctx.String("bundle"), spec.ConfigName), ctx.Bool("rootless"))
		}),
	}
}

// writeSpec never replaces a file: somebody's edits may be in it.
func writeSpec(path string, rootless bool) error {
	data, err := json.MarshalIndent(runtime.ExampleSpec(rootless), "", "\t")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("File %s exists. Remove it first", filepath.Base(path)) //nolint:staticcheck // runc's phrase
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
