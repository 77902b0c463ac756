package main

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

var reportCmp = cmp.AllowUnexported(report{}, result{})

func TestParseTAP(t *testing.T) {
	tests := []struct {
		name string
		in   string
		want report
	}{
		{"empty", "", report{}},
		{"each outcome", fileMark + `a.bats
1..4
ok 1 runc create
not ok 2 runc run
ok 3 needs a thing # skip test requires systemd
ok 4 skipped for no reason # skip
`, report{results: []result{
			{key: "a.bats: runc create", outcome: passed},
			{key: "a.bats: runc run", outcome: failed},
			{key: "a.bats: needs a thing", outcome: skipped},
			{key: "a.bats: skipped for no reason", outcome: skipped},
		}}},
		{
			"carriage returns of the terminal", fileMark + "a.bats\n1..2\r\nok 1 one\r\n\rok 2 two\r\r\n",
			report{results: []result{{key: "a.bats: one", outcome: passed}, {key: "a.bats: two", outcome: passed}}},
		},
		{
			"no line end at the end", fileMark + "a.bats\n1..1\nok 1 one",
			report{results: []result{{key: "a.bats: one", outcome: passed}}},
		},
		{"details belong to the failure above", fileMark + `a.bats
1..3
ok 1 one
# said by a pass
not ok 2 two
# (in test file a.bats, line 7)
stray output
#   indented
ok 3 three
`, report{results: []result{
			{key: "a.bats: one", outcome: passed},
			{key: "a.bats: two", outcome: failed, lines: []string{"(in test file a.bats, line 7)", "  indented"}},
			{key: "a.bats: three", outcome: passed},
		}}},
		{
			"timeout is a failure under the same title", fileMark + "a.bats\n1..1\nnot ok 1 slow # timeout after 180s\n",
			report{results: []result{{key: "a.bats: slow", outcome: failed}}},
		},
		{
			"not ok with skip is a failure", fileMark + "a.bats\n1..1\nnot ok 1 odd # skip why\n",
			report{results: []result{{key: "a.bats: odd", outcome: failed}}},
		},
		{
			"hash and skip inside a title", fileMark + "a.bats\n1..2\nok 1 run # twice\nok 2 skip nothing\n",
			report{results: []result{{key: "a.bats: run # twice", outcome: passed}, {key: "a.bats: skip nothing", outcome: passed}}},
		},
		{
			"one title twice in a file, once in another", fileMark + "a.bats\n1..2\nok 1 same\nnot ok 2 same\n" + fileMark + "b.bats\n1..1\nok 1 same\n",
			report{results: []result{
				{key: "a.bats: same", outcome: passed},
				{key: "a.bats: same (2)", outcome: failed},
				{key: "b.bats: same", outcome: passed},
			}},
		},
		{
			"fewer tests than announced", fileMark + "a.bats\n1..3\nok 1 one\n" + fileMark + "b.bats\n1..1\nok 1 one\n",
			report{results: []result{{key: "a.bats: one", outcome: passed}, {key: "b.bats: one", outcome: passed}}, unfinished: []string{"a.bats"}},
		},
		{
			"a file that never started", fileMark + "a.bats\n" + fileMark + "b.bats\nbats: no such file\n",
			report{unfinished: []string{"a.bats", "b.bats"}},
		},
		{
			"a plan printed by a test is no plan", fileMark + "a.bats\n1..1\n1..9\nok 1 one\n",
			report{results: []result{{key: "a.bats: one", outcome: passed}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseTAP(strings.NewReader(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, tt.want, reportCmp); diff != "" {
				t.Errorf("report (-got +want):\n%s", diff)
			}
		})
	}
}

func TestParseTAPReadError(t *testing.T) {
	want := errors.New("disk gone")
	if _, err := parseTAP(iotest.ErrReader(want)); !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

func TestOutcomeString(t *testing.T) {
	for want, o := range map[string]outcome{"did not report": absent, "failed": failed, "skipped": skipped, "passed": passed, "outcome 9": 9} {
		if got := o.String(); got != want {
			t.Errorf("outcome %d is %q, want %q", int(o), got, want)
		}
	}
}
