package cli

import (
	"encoding/json"

	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/runtime"
)

func (c *command) features() cli.Command {
	return cli.Command{
		Name:      "features",
		Usage:     "show the enabled features",
		ArgsUsage: "",
		Description: `Prints what this binary can do, as the JSON document that the OCI runtime
   specification defines in features.md.`,
		Action: c.action(exactly(0), func(*cli.Context) error {
			enc := json.NewEncoder(c.env.Out)
			enc.SetIndent("", "    ")
			return enc.Encode(runtime.Features(version, commit))
		}),
	}
}
