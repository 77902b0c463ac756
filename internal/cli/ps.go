package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/runtime"
)

func (c *command) ps() cli.Command {
	return cli.Command{
		Name:           "ps",
		Usage:          "ps displays the processes running inside a container",
		ArgsUsage:      `<container-id> [ps options]`,
		Flags:          []cli.Flag{formatFlag()},
		SkipArgReorder: true, // options after the id are those of ps(1)
		Action: c.action(atLeastOne, c.loaded(func(ctx *cli.Context, container *runtime.Container) error {
			pids, err := container.Processes()
			if err != nil {
				return err
			}
			switch ctx.String("format") {
			case "json":
				return json.NewEncoder(c.env.Out).Encode(pids)
			case "table":
				return c.psTable(pids, ctx.Args().Tail())
			default:
				return errors.New("invalid format option")
			}
		})),
	}
}

// psTable prints the lines of the host's ps(1) that are about pids.
func (c *command) psTable(pids []int, args []string) error {
	if len(args) == 0 {
		args = []string{"-ef"}
	}
	out, err := exec.CommandContext(context.Background(), "ps", args...).CombinedOutput() //nolint:forbidigo // one short child, ended with us by ^C
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Scan()
	title := lines.Text()
	column := slices.Index(strings.Fields(title), "PID")
	if column < 0 {
		return errors.New("couldn't find PID field in ps output")
	}
	fmt.Fprintln(c.env.Out, title)
	for lines.Scan() {
		ours, err := hasPid(lines.Text(), column, pids)
		if err != nil {
			return err
		}
		if ours {
			fmt.Fprintln(c.env.Out, lines.Text())
		}
	}
	return lines.Err()
}

// hasPid is false for a line that is too short, such as one that a program
// broke by a newline in its title.
func hasPid(line string, column int, pids []int) (bool, error) {
	fields := strings.Fields(line)
	if len(fields) <= column {
		return false, nil
	}
	pid, err := strconv.Atoi(fields[column])
	if err != nil {
		return false, fmt.Errorf("unable to parse pid: %w", err)
	}
	return slices.Contains(pids, pid), nil
}
