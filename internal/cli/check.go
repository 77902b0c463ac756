package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/doctor"
	"github.com/sage-sandbox/sage/internal/runtime"
)

// checkLimit bounds all probes together; they take a few hundred milliseconds.
const checkLimit = 30 * time.Second

func (c *command) check() cli.Command {
	return cli.Command{
		Name:  "check",
		Usage: "say what this host can enforce, by trying it",
		Description: `Reads the host's configuration, tries what the profiles need, and leaves nothing
   behind. The exit status is 1 where the default profile cannot be enforced, or
   something could not be repaired.`,
		Flags: []cli.Flag{
			cli.BoolFlag{Name: "json", Usage: "print JSON"},
			cli.BoolFlag{Name: "repair", Usage: "first remove what no container owns: what a killed create left below --root, and projects of the quota mount"},
		},
		Action: c.action(exactly(0), func(ctx *cli.Context) error {
			r, err := c.checkHost(ctx.Bool("repair"))
			if err != nil {
				return err
			}
			if ctx.Bool("json") {
				err = printJSON(c.env.Out, r)
			} else {
				err = r.print(c.env.Out)
			}
			if err == nil && (!r.OK || r.failed()) {
				return exitStatus(1) // what is missing is said in what was printed
			}
			return err
		}),
	}
}

// checkReport is what check prints.
type checkReport struct {
	Config   string           `json:"config"`
	Default  string           `json:"default_profile"`
	OK       bool             `json:"ok"` // the default profile can be enforced
	Profiles []checkProfile   `json:"profiles"`
	Findings []doctor.Finding `json:"findings"`
	Repairs  []repair         `json:"repairs,omitempty"`
}

// checkProfile says whether a container under the profile would be made.
type checkProfile struct {
	Name    string `json:"name"`
	Bundles bool   `json:"bundles_may_choose"`
	Refusal string `json:"refusal,omitempty"`
}

func (c *command) checkHost(mend bool) (*checkReport, error) {
	host, err := c.host.Policy()
	if err != nil {
		return nil, err
	}
	var repairs []repair
	if mend {
		repairs = c.repair(host)
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkLimit) //nolint:forbidigo // urfave/cli v1 hands none down
	defer cancel()
	r := &checkReport{
		Config: c.host.Config, Default: host.DefaultProfile, Repairs: repairs,
		Findings: doctor.Check(ctx, doctor.Host{CgroupRoot: host.CgroupRoot, QuotaMount: host.QuotaMount}),
	}
	r.Findings = append(r.Findings, runtime.ProbeEgress(host)...)
	for _, name := range host.ProfileNames() {
		e, err := c.host.ExplainProfile(host, name)
		if err != nil {
			return nil, err
		}
		p := checkProfile{Name: name, Bundles: slices.Contains(host.AllowedProfiles, name), Refusal: r.refusal(e)}
		if name == host.DefaultProfile {
			r.OK = p.Refusal == ""
		}
		r.Profiles = append(r.Profiles, p)
	}
	return r, nil
}

// refusal is why a container under e would not be made on this host.
func (r *checkReport) refusal(e *runtime.Explanation) string {
	if e.Refusal != "" || e.Policy.Compat {
		return e.Refusal
	}
	for _, f := range r.Findings {
		if !f.OK && f.Level == doctor.LevelPolicy {
			return f.Name + ": " + f.Seen
		}
	}
	return ""
}

func (r *checkReport) print(w io.Writer) error {
	for _, x := range r.Repairs {
		fmt.Fprintln(w, x)
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "PROBE\tOK\tNEEDED FOR\tSEEN\tWHAT TO DO")
	for _, f := range r.Findings {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", f.Name, yes(f.OK), f.Level, f.Seen, f.Do)
	}
	fmt.Fprintf(table, "\nconfiguration %s, default profile %s\nPROFILE\tWORKS\tBUNDLES MAY CHOOSE IT\tWHY NOT\n", r.Config, r.Default)
	for _, p := range r.Profiles {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", p.Name, yes(p.Refusal == ""), yes(p.Bundles), p.Refusal)
	}
	return table.Flush()
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}
