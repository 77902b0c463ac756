package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"

	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/runtime"
)

func (c *command) metrics() cli.Command {
	return cli.Command{
		Name:  "metrics",
		Usage: "print what is counted of all containers, for Prometheus",
		ArgsUsage: `

Shows the containers below --root (/run/sage unless given), as list does.`,
		Description: `Prints memory, CPU, processes, disk and egress of every container in the text
   format of Prometheus, for the textfile collector of its node exporter:

       # sage-runtime metrics >/var/lib/node_exporter/sage.prom.new &&
           mv /var/lib/node_exporter/sage.prom.new /var/lib/node_exporter/sage.prom

   What cannot be read of a container is said on standard error and counted in
   sage_scrape_error; the rest is printed and the exit status is 0.`,
		Action: c.action(exactly(0), func(ctx *cli.Context) error {
			metrics, failures, err := c.host.Metrics()
			if errors.Is(err, fs.ErrNotExist) && !ctx.GlobalIsSet("root") {
				err = nil // nobody has made a container yet
			}
			if err != nil {
				return err
			}
			for _, err := range failures {
				fmt.Fprintln(c.env.Err, oneLine(err.Error()))
			}
			_, err = c.env.Out.Write(exposition(append([]runtime.Metric{buildInfo()}, metrics...)))
			return err
		}),
	}
}

// buildInfo is there without any container, so that one can see that it works.
func buildInfo() runtime.Metric {
	return runtime.Metric{
		Name: "sage_build_info", Help: "The version of sage-runtime that was asked.", Gauge: true,
		Samples: []runtime.Sample{{Labels: []runtime.Label{{Name: "version", Value: version}}, Value: 1}},
	}
}

// exposition is Prometheus' text format, version 0.0.4: all samples of a metric
// in one group, below its help and its type.
// https://prometheus.io/docs/instrumenting/exposition_formats/
func exposition(metrics []runtime.Metric) []byte {
	var out bytes.Buffer
	for _, m := range metrics {
		kind := "counter"
		if m.Gauge {
			kind = "gauge"
		}
		fmt.Fprintf(&out, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", m.Name, escapeHelp.Replace(m.Help), kind)
		for _, s := range m.Samples {
			fmt.Fprintf(&out, "%s%s %s\n", m.Name, labels(s.Labels), strconv.FormatFloat(s.Value, 'f', -1, 64))
		}
	}
	return out.Bytes()
}

// A place in a container is what its bundle says: it can be any text, and the
// format has room for any that is UTF-8.
var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func labels(list []runtime.Label) string {
	parts := make([]string, len(list))
	for i, l := range list {
		parts[i] = l.Name + `="` + escapeValue.Replace(strings.ToValidUTF8(l.Value, "\uFFFD")) + `"`
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// oneLine keeps a failure from looking like several, or like something else on a
// terminal: the name of a directory below the root can hold any byte.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
