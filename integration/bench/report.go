package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// report prints what was measured as markdown, ready for a closing note.
func (l *lab) report(ctx context.Context, w io.Writer, results []result, loadBefore string) error {
	fmt.Fprintf(w, "%s; load %s before, %s after\n", machine(), loadBefore, loadAverage())
	for _, r := range []*contender{l.runc, l.sage} {
		text, err := r.output(ctx, "--version")
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s is: %s\n", r.name, strings.ReplaceAll(text, "\n", "; "))
	}
	printTable(w, results)
	return l.printSizes(ctx, w)
}

func printTable(w io.Writer, results []result) {
	fmt.Fprint(w, "\n| command | pairs | runc ms (p10-p90) | sage ms (p10-p90) | ratio of medians | paired ratio (95 %)"+
		" | CPU ms runc, sage, ratio | promise | |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(w, "| `%s` | %d | %s | %s | **%.3f** | %.3f (%.3f-%.3f) | %s, %s, %.3f | <= %.2f | %s |\n",
			r.name, len(r.pairs), r.runc, r.sage, r.ratio(), r.paired.value, r.paired.low, r.paired.high,
			ms(r.runcCPU.median), ms(r.sageCPU.median), r.cpuRatio(), r.limit, r.verdict())
	}
}

func (s spread) String() string {
	return fmt.Sprintf("%s (%s-%s)", ms(s.median), ms(s.p10), ms(s.p90))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }

// printSizes strips both: whether a build does that by itself is its own matter.
func (l *lab) printSizes(ctx context.Context, w io.Writer) error {
	fmt.Fprint(w, "\n| binary | MiB | MiB stripped |\n|---|---|---|\n")
	for _, r := range []*contender{l.runc, l.sage} {
		stripped := r.bin + "-stripped"
		if err := command(ctx, "strip", "-o", stripped, r.bin); err != nil {
			return err
		}
		whole, err1 := os.Stat(r.bin)
		rest, err2 := os.Stat(stripped)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		fmt.Fprintf(w, "| %s | %.2f | %.2f |\n", r.name, mib(whole), mib(rest))
	}
	return nil
}

func mib(info os.FileInfo) float64 { return float64(info.Size()) / (1 << 20) }

// machine says what a reader needs to repeat a figure, or to doubt it.
func machine() string {
	var u unix.Utsname
	_ = unix.Uname(&u) // with that pointer it cannot fail
	release := string(bytes.TrimRight(u.Release[:], "\x00"))
	return fmt.Sprintf("Linux %s, %d x %s, %s, bench built by %s",
		release, runtime.NumCPU(), cpuModel(), cgroups(), runtime.Version())
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return runtime.GOARCH
}

// cgroups counts the hierarchies: on v1 a runtime makes a cgroup in each.
func cgroups() string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return "cgroup v2"
	}
	found, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	return fmt.Sprintf("cgroup v1, %d hierarchies", len(found))
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// writeCSV keeps the samples, in nanoseconds, for whoever doubts the summary.
func writeCSV(name string, results []result) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	_ = w.Write([]string{"command", "runc_wall", "sage_wall", "runc_cpu", "sage_cpu"}) // Error has it
	for _, r := range results {
		for _, p := range r.pairs {
			_ = w.Write([]string{r.name, ns(p.runc.wall), ns(p.sage.wall), ns(p.runc.cpu), ns(p.sage.cpu)})
		}
	}
	w.Flush()
	return errors.Join(w.Error(), f.Close())
}

func ns(d time.Duration) string { return strconv.FormatInt(d.Nanoseconds(), 10) }
