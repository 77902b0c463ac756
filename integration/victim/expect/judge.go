package expect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Trial is one container's worth of outcomes, and what was to come of them.
type Trial struct {
	Profile Profile
	// Contexts are those that there must be outcomes of, each a whole table.
	Contexts []string
	// Instead has the result of attempts for which this container differs from
	// the table's, with its own reason where it is set.
	Instead map[string]string
	// Only leaves out attempts of other kinds, if it is set.
	Only func(attempt string) bool
}

// key is where an outcome belongs.
type key struct{ attempt, context string }

// Judge compares: every attempt of the table must have one outcome in every
// context, and every outcome a row. The text is the table as it came out.
func (tr Trial) Judge(outcomes []Outcome) (table string, problems []string) {
	got, problems := tr.collect(outcomes)
	known := map[string]bool{}
	for _, row := range Rows() {
		known[row.Attempt] = true
		for _, context := range tr.Contexts {
			if tr.Only == nil || tr.Only(row.Attempt) {
				problems = append(problems, tr.judge(row, context, got)...)
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(got), compareKeys) {
		if !known[k.attempt] {
			problems = append(problems, fmt.Sprintf("%s as %s: got %s, but the table has no such row", k.attempt, k.context, got[k]))
		}
	}
	return tr.print(got), problems
}

func compareKeys(a, b key) int { return strings.Compare(a.attempt+a.context, b.attempt+b.context) }

// collect sorts outcomes by where they belong; one place has one outcome.
func (tr Trial) collect(outcomes []Outcome) (got map[key]string, problems []string) {
	got = map[key]string{}
	for _, o := range outcomes {
		k := key{o.Attempt, o.Context}
		if _, twice := got[k]; twice {
			problems = append(problems, fmt.Sprintf("%s as %s: more than one outcome", k.attempt, k.context))
		}
		got[k] = o.Result
	}
	return got, problems
}

func (tr Trial) judge(row Row, context string, got map[key]string) []string {
	want := tr.want(row)
	result, tried := got[key{row.Attempt, context}]
	switch {
	case !tried:
		return []string{fmt.Sprintf("%s as %s: was not tried, want %s", row.Attempt, context, want)}
	case !matches(result, want):
		return []string{fmt.Sprintf("%s as %s: got %s, want %s", row.Attempt, context, result, want)}
	}
	return nil
}

func (tr Trial) want(row Row) string {
	if want, differs := tr.Instead[row.Attempt]; differs {
		return want
	}
	return row.Want(tr.Profile)
}

// print shows a context's result only where it is not what was wanted.
func (tr Trial) print(got map[key]string) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "attempt\tunconfined\t%s\t%s\n", tr.Profile, strings.Join(tr.Contexts, "\t"))
	for _, row := range Rows() {
		want := tr.want(row)
		fmt.Fprintf(w, "%s\t%s\t%s", row.Attempt, row.Unconfined, want)
		for _, context := range tr.Contexts {
			fmt.Fprintf(w, "\t%s", mark(got[key{row.Attempt, context}], want))
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	return text.String()
}

func mark(got, want string) string {
	switch {
	case got == "":
		return "-"
	case matches(got, want):
		return "="
	}
	return got + "!"
}

// Escapes lists the attempts that came through although the table denies them,
// for a container in which others deny too, with errors of their own, as an
// engine's default profile does.
func (tr Trial) Escapes(outcomes []Outcome) (problems []string) {
	got, problems := tr.collect(outcomes)
	for _, row := range Rows() {
		for _, context := range tr.Contexts {
			result, tried := got[key{row.Attempt, context}]
			switch want := tr.want(row); {
			case !tried || strings.HasPrefix(result, "error"):
				problems = append(problems, fmt.Sprintf("%s as %s: was not tried: %s", row.Attempt, context, result))
			case result == "ok" && !matches(result, want):
				problems = append(problems, fmt.Sprintf("%s as %s: got %s, want %s or another denial", row.Attempt, context, result, want))
			}
		}
	}
	return problems
}

// JudgeI386 compares what the same program of the 32-bit table said, whose
// attempts are named alike: whatever it tries, it must not get as far.
func JudgeI386(p Profile, outcomes []Outcome) (problems []string) {
	if len(outcomes) == 0 {
		problems = append(problems, "i386: nothing was tried")
	}
	for _, o := range outcomes {
		if killed := o.Result == "SIGSYS"; killed == (p == Unconfined) || o.ABI != "386" {
			problems = append(problems, fmt.Sprintf("i386 %s: got %s by the table %s, want SIGSYS but for %s", o.Attempt, o.Result, o.ABI, Unconfined))
		}
	}
	return problems
}
