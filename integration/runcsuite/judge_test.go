package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJudge(t *testing.T) {
	exceptions := map[string]string{"x": "compares names", "b.bats: dropped": "of a file that is run in one case"}
	tests := []struct {
		name       string
		runc, sage []result
		want       verdict
	}{
		{
			"passed by both",
			[]result{{key: "a", outcome: passed}},
			[]result{{key: "a", outcome: passed}},
			verdict{bothPassed: 1},
		},
		{
			"skipped by both",
			[]result{{key: "a", outcome: skipped}},
			[]result{{key: "a", outcome: skipped}},
			verdict{bothSkipped: 1},
		},
		{
			"failed by both",
			[]result{{key: "a", outcome: failed}},
			[]result{{key: "a", outcome: failed}},
			verdict{bothFailed: []string{"a"}},
		},
		{
			"sage fails",
			[]result{{key: "a", outcome: passed}},
			[]result{{key: "a", outcome: failed, lines: []string{"why"}}},
			verdict{sageOnlyFailed: []result{{key: "a", outcome: failed, lines: []string{"why"}}}},
		},
		{
			"sage skips what runc passes",
			[]result{{key: "a", outcome: passed}},
			[]result{{key: "a", outcome: skipped}},
			verdict{sageOnlyFailed: []result{{key: "a", outcome: skipped}}},
		},
		{
			"sage never reports",
			[]result{{key: "a", outcome: passed}},
			nil,
			verdict{sageOnlyFailed: []result{{key: "a", outcome: absent}}},
		},
		{
			"sage is better",
			[]result{{key: "a", outcome: failed}, {key: "b", outcome: skipped}},
			[]result{{key: "b", outcome: passed}, {key: "a", outcome: passed}},
			verdict{sageOnlyPassed: []string{"a (runc: failed)", "b (runc: skipped)"}},
		},
		{
			"only sage reports", nil,
			[]result{{key: "a", outcome: passed}, {key: "b", outcome: failed}},
			verdict{sageOnlyPassed: []string{"a (runc: did not report)"}, differs: []string{"b (runc: did not report, sage: failed)"}},
		},
		{
			"other differences",
			[]result{{key: "a", outcome: skipped}, {key: "b", outcome: failed}},
			[]result{{key: "a", outcome: failed}, {key: "b", outcome: skipped}},
			verdict{differs: []string{"a (runc: skipped, sage: failed)", "b (runc: failed, sage: skipped)"}},
		},
		{
			"exception",
			[]result{{key: "x", outcome: passed}},
			[]result{{key: "x", outcome: failed}},
			verdict{excepted: []string{"x: compares names"}},
		},
		{
			"exception not needed",
			[]result{{key: "x", outcome: passed}},
			[]result{{key: "x", outcome: passed}},
			verdict{bothPassed: 1, stale: []string{"x"}},
		},
		{
			"exception that runc fails too",
			[]result{{key: "x", outcome: failed}},
			[]result{{key: "x", outcome: failed}},
			verdict{bothFailed: []string{"x"}},
		},
		{
			"exception of no test",
			[]result{{key: "b.bats: a", outcome: passed}},
			[]result{{key: "b.bats: a", outcome: passed}},
			verdict{bothPassed: 1, unknown: []string{"b.bats: dropped"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := judge(tt.runc, tt.sage, exceptions)
			if diff := cmp.Diff(got, tt.want, cmp.AllowUnexported(verdict{}, result{})); diff != "" {
				t.Errorf("verdict (-got +want):\n%s", diff)
			}
		})
	}
}

func TestVerdictErr(t *testing.T) {
	cut := [2]outcomeOf{{name: "runc", report: report{unfinished: []string{"exec.bats"}}}, {name: "sage"}}
	cutSage := [2]outcomeOf{{name: "runc"}, {name: "sage", report: report{unfinished: []string{"exec.bats"}}}}
	tests := []struct {
		name string
		v    verdict
		runs [2]outcomeOf
		want string // empty: no error
	}{
		{"as good as runc", verdict{bothPassed: 3, bothFailed: []string{"a"}, differs: []string{"b"}, excepted: []string{"c"}}, [2]outcomeOf{}, ""},
		{"worse", verdict{bothPassed: 3, sageOnlyFailed: []result{{key: "a"}}}, [2]outcomeOf{}, "1 of the tests that runc passes do not pass with sage"},
		{"nothing compared", verdict{bothFailed: []string{"a"}}, [2]outcomeOf{}, "nothing was compared"},
		{"cut short", verdict{bothPassed: 3}, cut, "files cut short with runc: exec.bats"},
		{"cut short under a strict list", verdict{bothPassed: 3, strict: true}, cut, "files cut short with runc: exec.bats"},
		{"sage cut short", verdict{bothPassed: 3}, cutSage, "files cut short with sage: exec.bats"},
		{"sage cut short as listed", verdict{bothPassed: 3, strict: true}, cutSage, ""},
		{"stale exception", verdict{bothPassed: 3, stale: []string{"x"}}, [2]outcomeOf{}, ""},
		{"stale exception of a strict list", verdict{bothPassed: 3, stale: []string{"x"}, strict: true}, [2]outcomeOf{}, "1 of the tests that are listed as failing pass"},
		{"unknown exception", verdict{bothPassed: 3, unknown: []string{"x", "y"}}, [2]outcomeOf{}, "2 of the listed tests do not exist"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := tt.v.err(tt.runs); err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("error %q, want %q in it", got, tt.want)
			}
		})
	}
}

func TestParseExceptions(t *testing.T) {
	got, err := parseExceptions("# comment\n\na.bats: title # with hash # because of names\n")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, map[string]string{"a.bats: title # with hash": "because of names"}); diff != "" {
		t.Errorf("exceptions (-got +want):\n%s", diff)
	}
	if _, err := parseExceptions("a.bats: title\n"); err == nil {
		t.Error("an exception without a reason was accepted")
	}
}

// TestCheckedInLists fails for a list that a run would stumble over minutes later.
func TestCheckedInLists(t *testing.T) {
	if _, err := parseExceptions(exceptionList); err != nil {
		t.Error(err)
	}
	for _, name := range listLines(subsetList) {
		if !strings.HasSuffix(name, ".bats") {
			t.Errorf("subset.txt: %q is no bats file", name)
		}
	}
}
