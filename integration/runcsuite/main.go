// Command runcsuite runs runc's own bats suite with runc and then with
// sage-runtime and compares the two, test by test. What runc passes here, today,
// is what sage must pass; the only expectations of its own are the lists of what
// a profile's policy is known to refuse, each with its reason.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

//go:embed subset.txt
var subsetList string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "runcsuite:", err)
		}
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	runc, sage, files string
	profiles          []profile
	subset            bool
	timeout           time.Duration
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("runcsuite", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.runc, "runc", filepath.Join(cacheDir(), "peers", "bin", "runc"), "the runtime that says what must pass")
	flags.StringVar(&o.sage, "sage", filepath.Join("bin", "sage-runtime"), "the runtime that is judged")
	flags.StringVar(&o.files, "files", "", "bats files to run, with commas between; all if empty")
	flags.BoolVar(&o.subset, "subset", false, "run the files of subset.txt, a few minutes in all")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Minute, "the most that one of the two runs may take")
	names := flags.String("profile", "compat", "the profiles that sage is judged under, with commas between")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.profiles, err = parseProfiles(*names); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.subset && o.files != "" {
		return o, errors.New("want either -files or -subset, and no arguments besides the flags")
	}
	return o, nil
}

// wanted returns the bats files that were asked for; none means all.
func (o options) wanted() []string {
	if o.subset {
		return listLines(subsetList)
	}
	return strings.FieldsFunc(o.files, func(r rune) bool { return r == ',' || r == ' ' })
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseFlags(args, stderr)
	if err != nil {
		return err
	}
	runtimes, err := findRuntimes(ctx, o)
	if err != nil {
		return err
	}
	if err := errors.Join(requirePrograms(), adoptOrphans()); err != nil {
		return err
	}
	s, err := prepare(ctx, o.wanted(), stderr)
	if err != nil {
		return err
	}
	defer s.remove()
	return s.compareAll(ctx, runtimes, o, stdout)
}

// compareAll runs all serially: side by side they would fight over the host
// names that the suite fixes, such as the interface dummy0 and the cgroup
// runc-cgroups-integration-test. Every profile is compared with the same run of
// runc, and a failure under one does not hide that under another.
func (s *suite) compareAll(ctx context.Context, r runtimes, o options, stdout io.Writer) error {
	reference := contender{name: "runc", path: r.runc}
	runc, err := s.runBounded(ctx, &reference, o.timeout)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range o.profiles {
		if err := s.compare(ctx, runc, r.contender(p), p, o.timeout, stdout); err != nil {
			errs = append(errs, fmt.Errorf("profile %s: %w", p.name, err))
		}
	}
	return errors.Join(errs...)
}

func (s *suite) compare(ctx context.Context, runc outcomeOf, sage contender, p profile, limit time.Duration, stdout io.Writer) error {
	run, err := s.runBounded(ctx, &sage, limit)
	if err != nil {
		return err
	}
	v := judge(runc.results, run.results, p.known)
	v.strict = p.strict
	if err := s.again(ctx, sage, &v, limit); err != nil {
		return err
	}
	runs := [2]outcomeOf{runc, run}
	writeTable(stdout, s.version, runs, v)
	return v.err(runs)
}

// listLines returns the lines of a checked-in list without comments and blanks.
func listLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

func cacheDir() string {
	if dir := os.Getenv("SAGE_CACHE"); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "sage")
}
