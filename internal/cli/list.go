package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/runtime"
)

func (c *command) state() cli.Command {
	return cli.Command{
		Name:        "state",
		Usage:       "output the state of a container",
		ArgsUsage:   idArg,
		Description: "Prints the container's state as JSON, in the form of the OCI runtime specification.",
		Action: c.onContainer(func(_ *cli.Context, container *runtime.Container) error {
			state, err := container.State()
			if err != nil {
				return err
			}
			data, err := json.MarshalIndent(state, "", "  ")
			if err != nil {
				return err
			}
			_, err = c.env.Out.Write(data)
			return err
		}),
	}
}

func (c *command) list() cli.Command {
	return cli.Command{
		Name:  "list",
		Usage: "lists containers started by sage-runtime with the given root",
		ArgsUsage: `

Shows the containers below --root (/run/sage unless given), whatever made them.`,
		Flags: []cli.Flag{
			formatFlag(),
			cli.BoolFlag{Name: "quiet, q", Usage: "display only container IDs"},
		},
		Action: c.action(exactly(0), c.listStates),
	}
}

func (c *command) listStates(ctx *cli.Context) error {
	states, broken, err := c.host.List()
	if errors.Is(err, fs.ErrNotExist) && !ctx.GlobalIsSet("root") {
		err = nil // nobody has made a container yet
	}
	if err != nil {
		return err
	}
	for _, err := range broken {
		fmt.Fprintln(c.env.Err, err)
	}
	switch format := ctx.String("format"); {
	case ctx.Bool("quiet"):
		for i := range states {
			fmt.Fprintln(c.env.Out, states[i].ID)
		}
		return nil
	case format == "table":
		return c.printTable(states)
	case format == "json":
		return json.NewEncoder(c.env.Out).Encode(states)
	default:
		return errors.New("invalid format option")
	}
}

func (c *command) printTable(states []runtime.State) error {
	w := tabwriter.NewWriter(c.env.Out, 12, 1, 3, ' ', 0)
	fmt.Fprint(w, "ID\tPID\tSTATUS\tBUNDLE\tCREATED\tOWNER\n")
	for i := range states {
		s := &states[i]
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", s.ID, s.Pid, s.Status, s.Bundle, s.Created.Format(time.RFC3339Nano), s.Owner)
	}
	return w.Flush()
}
