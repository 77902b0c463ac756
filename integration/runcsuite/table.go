package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// The end of a failure's output is where bats puts what the test last saw.
const shownLines = 25

// writeTable prints the comparison: counts first, then the names that matter.
func writeTable(w io.Writer, version string, runs [2]outcomeOf, v verdict) {
	fmt.Fprintf(w, "\nrunc %s's own suite\n\n", version)
	fmt.Fprintf(w, "%-12s %6s %6s %6s %8s   %s\n", "", "pass", "skip", "fail", "time", "log")
	for _, r := range runs {
		fmt.Fprintf(w, "%-12s %6d %6d %6d %8s   %s\n", r.name, r.count(passed), r.count(skipped), r.count(failed), r.took.Round(time.Second), r.log)
	}
	fmt.Fprintln(w)
	row(w, "passed by both", v.bothPassed, nil)
	row(w, "skipped by both", v.bothSkipped, nil)
	row(w, "failed by both", len(v.bothFailed), v.bothFailed)
	row(w, "failed by sage only", len(v.sageOnlyFailed), withOutcome(v.sageOnlyFailed))
	row(w, "  excepted", len(v.excepted), v.excepted)
	if len(v.unsteady) > 0 {
		row(w, "failed once by sage", len(v.unsteady), withOutcome(v.unsteady))
	}
	row(w, "passed by sage only", len(v.sageOnlyPassed), v.sageOnlyPassed)
	if len(v.differs) > 0 {
		row(w, "other differences", len(v.differs), v.differs)
	}
	if len(v.stale) > 0 {
		row(w, "exceptions not needed", len(v.stale), v.stale)
	}
	if len(v.unknown) > 0 {
		row(w, "listed, no such test", len(v.unknown), v.unknown)
	}
	for _, r := range runs {
		if len(r.cleaned) > 0 {
			row(w, "left by tests, "+r.name, len(r.cleaned), r.cleaned)
		}
	}
	for _, r := range slices.Concat(v.sageOnlyFailed, v.unsteady) {
		writeFailure(w, r)
	}
}

func row(w io.Writer, label string, n int, names []string) {
	fmt.Fprintf(w, "%-24s %4d\n", label, n)
	for _, name := range names {
		fmt.Fprintf(w, "    %s\n", name)
	}
}

func withOutcome(results []result) []string {
	var names []string
	for _, r := range results {
		names = append(names, fmt.Sprintf("%s (%s)", r.key, r.outcome))
	}
	return names
}

func writeFailure(w io.Writer, r result) {
	if len(r.lines) == 0 {
		return
	}
	lines := r.lines[max(0, len(r.lines)-shownLines):]
	fmt.Fprintf(w, "\n%s\n    %s\n", r.key, strings.Join(lines, "\n    "))
}

func (r report) count(o outcome) int {
	n := 0
	for _, res := range r.results {
		if res.outcome == o {
			n++
		}
	}
	return n
}
