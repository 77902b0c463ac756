package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/runtime"
	"github.com/sage-sandbox/sage/spec"
)

func (c *command) policyTest() cli.Command {
	return cli.Command{
		Name:      "test",
		Usage:     "say whether a program under a policy may connect to a URL, and by which rule",
		ArgsUsage: `<url> [<url>...]`,
		Description: `Decides by the code that the container's proxy decides by, and looks nothing up: the
   addresses of a name are checked when it is dialled. A path decides nothing. The exit
   status is 1 where one of the URLs would be denied.

   # sage-runtime policy test --profile agent --annotation network.mode=allowlist \
       --annotation network.allowed_hosts=pypi.org https://pypi.org/simple/`,
		Flags: []cli.Flag{
			cli.StringFlag{Name: "bundle, b", Usage: "path to the root of a bundle directory (default: the current one, without --profile)"},
			cli.StringFlag{Name: "profile, p", Usage: "a profile of the host's configuration, or a built-in one"},
			cli.StringSliceFlag{Name: "annotation, a", Usage: "KEY=VALUE that a bundle would carry; KEY with or without " + spec.AnnotationPrefix + "; may be repeated"},
			cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: c.action(atLeastOne, c.testURLs),
	}
}

func (c *command) testURLs(ctx *cli.Context) error {
	if ctx.IsSet("profile") && ctx.IsSet("bundle") {
		return errors.New("policy test: saw both --bundle and --profile, want one")
	}
	annotations, err := annotationsOf(ctx.StringSlice("annotation"))
	if err != nil {
		return err
	}
	answers, err := c.host.ExplainURLs(ctx.String("profile"), ctx.String("bundle"), annotations, ctx.Args())
	if err != nil {
		return err
	}
	if ctx.Bool("json") {
		err = printJSON(c.env.Out, answers)
	} else {
		err = printAnswers(c.env.Out, answers)
	}
	if err != nil {
		return err
	}
	for _, a := range answers {
		if !a.Allow {
			return exitStatus(1) // why is said in what was printed
		}
	}
	return nil
}

func annotationsOf(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range list {
		key, value, found := strings.Cut(text, "=")
		if !found {
			return nil, errors.New("--annotation: saw no =, want KEY=VALUE")
		}
		out[spec.AnnotationPrefix+strings.TrimPrefix(key, spec.AnnotationPrefix)] = value
	}
	return out, nil
}

func printAnswers(w io.Writer, answers []runtime.URLAnswer) error {
	for _, a := range answers {
		if _, err := fmt.Fprintln(w, answerLine(a)); err != nil {
			return err
		}
	}
	return nil
}

// answerLine is one line for a person; nothing in it is as the command line
// had it, but what has one form only.
func answerLine(a runtime.URLAnswer) string {
	line := "deny  " + a.URL
	if a.Allow {
		line = "allow " + a.URL
	}
	if a.Rule != "" {
		line += ", rule " + a.Rule
	}
	if a.Address != "" {
		line += "; the address is " + a.Address
	}
	if a.Scheme == "tcp" {
		line += "; no name is checked in what is sent"
	}
	if !a.Allow {
		line += fmt.Sprintf(": %s [%s]", a.Reason, a.Code)
	}
	return line
}
