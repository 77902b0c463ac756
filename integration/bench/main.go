// Command bench compares sage-runtime with runc on this machine, command by
// command, in interleaved pairs. It measures and judges the promises of the
// design; it is no test, since a busy machine would make it fail for nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == roleVerb {
		if err := play(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program as usual
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	sage, runc string
	pairs      int
	self       bool
	only       string
	csv        string
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.sage, "sage", filepath.Join("bin", "sage-runtime"), "the runtime that is judged")
	flags.StringVar(&o.runc, "runc", filepath.Join(cacheDir(), "peers", "bin", "runc"), "the runtime that it is compared with")
	flags.IntVar(&o.pairs, "n", 200, "pairs of each measure; --version gets five times as many")
	flags.BoolVar(&o.self, "self", false, "compare -runc with a copy of itself, to see how far noise alone goes")
	flags.StringVar(&o.only, "only", "", "measures to take, by their first word, with commas between; all if empty")
	flags.StringVar(&o.csv, "csv", "", "also write every sample to this file")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.pairs < 2 || flags.NArg() > 0 {
		return o, errors.New("want -n of 2 at least, and no arguments besides the flags")
	}
	if o.self {
		o.sage = o.runc
	}
	return o, nil
}

func cacheDir() string {
	if dir := os.Getenv("SAGE_CACHE"); dir != "" {
		return dir
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = "."
	}
	return filepath.Join(base, "sage")
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parseFlags(args, stderr)
	if err != nil {
		return err
	}
	l, err := newLab(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close(ctx)) }()

	before := loadAverage()
	picked := chosen(measures, o.only)
	if slices.ContainsFunc(picked, func(m measure) bool { return m.policy }) {
		if err := l.checkLayers(ctx); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(picked, func(m measure) bool { return m.agent }) {
		if err := l.agent.checkProxied(ctx); err != nil {
			return err
		}
	}
	var results []result
	for _, m := range picked {
		fmt.Fprintf(stderr, "bench: %s\n", m.name)
		pairs, err := l.compare(ctx, m, o.pairs)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		results = append(results, summarize(m, pairs))
	}
	if o.csv != "" {
		if err := writeCSV(o.csv, results); err != nil {
			return err
		}
	}
	if err := l.report(ctx, stdout, results, before); err != nil || !o.compareWays() {
		return err
	}
	fmt.Fprintf(stderr, "bench: %s\n", waysWord)
	return l.compareWays(ctx, o, stdout)
}

// waysWord picks the comparison of ways to a server in -only.
const waysWord = "proxy"

func (o options) compareWays() bool {
	return !o.self && (o.only == "" || slices.Contains(strings.Split(o.only, ","), waysWord))
}

func (l *lab) compareWays(ctx context.Context, o options, stdout io.Writer) (err error) {
	w, err := newWays(ctx, l, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	if err := w.measure(ctx, 2*o.pairs); err != nil {
		return err
	}
	printWays(stdout, w.all)
	return nil
}

func chosen(all []measure, only string) []measure {
	if only == "" {
		return all
	}
	var picked []measure
	for _, m := range all {
		for word := range strings.SplitSeq(only, ",") {
			if word == strings.Fields(m.name)[0] {
				picked = append(picked, m)
			}
		}
	}
	return picked
}
