package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/runtime"
)

func (c *command) policy() cli.Command {
	return cli.Command{
		Name:  "policy",
		Usage: "show what would be enforced, value by value, and why",
		Description: `Settles the policy of a bundle, or of a profile for a bundle that asks for
   nothing, and makes no container. The exit status is 1 where create would refuse.`,
		Flags: []cli.Flag{
			cli.StringFlag{Name: "bundle, b", Usage: "path to the root of a bundle directory (default: the current one, without --profile)"},
			cli.StringFlag{Name: "profile, p", Usage: "a profile of the host's configuration, or a built-in one"},
			cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Subcommands: []cli.Command{c.policyTest()},
		Action: c.action(exactly(0), func(ctx *cli.Context) error {
			e, err := c.explain(ctx)
			if err != nil {
				return err
			}
			if err := printExplanation(c.env.Out, e, ctx.Bool("json")); err != nil {
				return err
			}
			if e.Refusal != "" {
				return exitStatus(1) // the refusal is said in what was printed
			}
			return nil
		}),
	}
}

func (c *command) explain(ctx *cli.Context) (*runtime.Explanation, error) {
	switch profile := ctx.String("profile"); {
	case profile == "":
		return c.host.ExplainBundle(ctx.String("bundle"))
	case ctx.IsSet("bundle"):
		return nil, errors.New("policy: saw both --bundle and --profile, want one")
	default:
		host, err := c.host.Policy()
		if err != nil {
			return nil, err
		}
		return c.host.ExplainProfile(host, profile)
	}
}

func printExplanation(w io.Writer, e *runtime.Explanation, asJSON bool) error {
	if asJSON {
		return printJSON(w, e)
	}
	fmt.Fprintf(w, "profile %s, policy %s\n", e.Policy.Profile, e.Digest)
	if e.Policy.Compat {
		fmt.Fprintln(w, "no policy: the container is run as runc would run it")
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "\nVALUE\tIS\tAT MOST\tFROM")
	for _, r := range e.Reasons {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.Field, or(r.Value, "-"), or(r.Ceiling, "-"), r.Source)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(e.Changes) > 0 {
		fmt.Fprintln(w, "\nWhat is changed in the bundle:")
	}
	for _, change := range e.Changes {
		fmt.Fprintf(w, "%s: %s (%s)", change.Field, change.Action, change.Why)
		if change.Now != "" {
			fmt.Fprintf(w, "\n    now: %s", change.Now)
		}
		fmt.Fprintln(w)
	}
	for _, l := range e.Above {
		fmt.Fprintf(w, "%s of %s above it is %s, which is less\n", l.File, l.Cgroup, l.Limit)
	}
	if e.Filter != nil {
		fmt.Fprintf(w, "\nsockets of the internet: %s\nsockets of AF_UNIX: %s\n", closedBy(e.NoInet), closedBy(e.NoUnix))
		printNetwork(w, e.Network)
		printDisk(w, e.Disk)
		fmt.Fprintf(w, "second seccomp layer: %d instructions, sha256 %s\n", e.Filter.Instructions, e.Filter.SHA256)
	}
	if e.Refusal != "" {
		fmt.Fprintf(w, "\ncreate would refuse: %s\n", e.Refusal)
	}
	return nil
}

func printNetwork(w io.Writer, n *runtime.NetworkSummary) {
	if n == nil {
		return
	}
	guard := "on every packet of the container's sockets"
	if n.NoGuard != "" {
		guard = "none, because " + n.NoGuard
	}
	fmt.Fprintf(w, "network guard: %s\n", guard)
	if !n.Proxy {
		return
	}
	transparent := fmt.Sprintf("on ports %v", n.Transparent)
	if n.NoTransparent != "" {
		transparent = "no, because " + n.NoTransparent
	}
	also := " and /run/sage/egress.sock"
	if n.NoUnix != "" {
		also = ", by no Unix socket as " + n.NoUnix
	}
	fmt.Fprintf(w, "proxy: at http://%s%s; dials from %s\n", n.Listens, also, n.DialsFrom)
	fmt.Fprintf(w, "programs that know of no proxy: %s\n", transparent)
}

func printDisk(w io.Writer, d *runtime.DiskSummary) {
	if d == nil {
		return
	}
	if d.NoQuota != "" {
		fmt.Fprintf(w, "disk project: none, because %s\n", d.NoQuota)
	} else {
		fmt.Fprintf(w, "disk project: %d bytes and %d inodes on %s, for %s\n", d.Bytes, d.Inodes, d.Mount, strings.Join(d.Places, ", "))
		fmt.Fprintf(w, "root file system: %s\n", d.Root)
	}
	for _, p := range d.Workspaces {
		fmt.Fprintf(w, "workspace %s: project %d of the administrator's, %d bytes and %d inodes, which count for the limit too\n", p.Place, p.Project, p.Bytes, p.Inodes)
	}
}

func closedBy(reason string) string {
	if reason == "" {
		return "open"
	}
	return "closed, because " + reason
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func (c *command) attest() cli.Command {
	return cli.Command{
		Name:      "attest",
		Usage:     "show what the kernel enforces for a container now",
		ArgsUsage: idArg,
		Description: `Asks the kernel about every thread of every process of the container, each
   stopped for a moment, and prints JSON with "ok" in each line. The exit status is 1
   where anything differs from the policy.`,
		Action: c.onContainer(func(_ *cli.Context, container *runtime.Container) error {
			a, err := container.Attest()
			if err != nil {
				return err
			}
			if err := printJSON(c.env.Out, a); err != nil {
				return err
			}
			if !a.OK {
				return errcode.Wrap(errcode.EnforcementFailed, "attest", errors.New(a.Problems()))
			}
			return nil
		}),
	}
}
