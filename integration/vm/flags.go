package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// kernels are the releases that sage is tested on: the oldest that has all it
// needs in Debian 12, and the newest there.
var kernels = []string{"6.1", "6.12"}

// options are the flags.
type options struct {
	kernels  []string
	packages []string
	run      string
	tags     string
	script   string
	systemd  bool
	verbose  bool
	accel    string
	memory   int // MiB
	cpus     int
	beside   int
	disk     int // GiB
	modules  []string
	env      []string
	out      string
	timeout  time.Duration
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("vm", flag.ContinueOnError)
	flags.SetOutput(stderr)
	kernel := flags.String("kernel", "6.12", "6.1, 6.12 or all")
	packages := flags.String("pkg", "", "packages whose tests to run, with commas or spaces between (default: the table in tests.go)")
	flags.StringVar(&o.run, "run", "", "run only tests that match, as go test -run")
	flags.StringVar(&o.tags, "tags", "vm", "the build tag of the tests")
	flags.StringVar(&o.script, "script", "", "run this program or script of the host instead of tests")
	flags.BoolVar(&o.systemd, "systemd", false, "boot systemd and run there; without -script only tests called TestSystemd*")
	flags.BoolVar(&o.verbose, "v", false, "go test -v")
	flags.StringVar(&o.accel, "accel", "auto", "kvm, tcg, or auto: kvm if it really boots")
	flags.IntVar(&o.memory, "m", 4096, "memory of the guest in MiB")
	flags.IntVar(&o.cpus, "smp", 0, "processors of a guest; 0 for an equal share of the host's for each that runs at a time")
	flags.IntVar(&o.beside, "beside", 2, "how many guests of one kernel run at a time")
	flags.IntVar(&o.disk, "disk", 10, "size of the disk with quotas in GiB; only what is written takes space")
	modules := flags.String("modules", "", "more kernel modules to load, with commas between")
	flags.Func("env", "NAME=VALUE for the jobs; may be repeated", func(s string) error {
		o.env = append(o.env, s)
		return nil
	})
	flags.StringVar(&o.out, "out", "", "a folder for what the jobs leave in $SAGE_VM_OUT")
	flags.DurationVar(&o.timeout, "timeout", 20*time.Minute, "the most that one guest may take")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.kernels, o.packages, o.modules = []string{*kernel}, list(*packages), list(*modules)
	if *kernel == "all" {
		o.kernels = kernels
	}
	return o, o.check(flags.Args())
}

func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("saw argument %q, want flags only", rest[0])
	case !slices.Contains(kernels, o.kernels[0]):
		return fmt.Errorf("-kernel is %q, want %s or all", o.kernels[0], strings.Join(kernels, ", "))
	case o.script != "" && (o.run != "" || len(o.packages) > 0):
		return errors.New("want either -script or tests (-run, -pkg)")
	case o.beside < 1:
		return fmt.Errorf("-beside is %d, want 1 at least", o.beside)
	case o.timeout < time.Minute:
		return fmt.Errorf("-timeout is %v, want a minute at least", o.timeout)
	case !slices.Contains([]string{"auto", "kvm", "tcg"}, o.accel):
		return fmt.Errorf("-accel is %q, want auto, kvm or tcg", o.accel)
	}
	return nil
}

func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
