package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestForgive(t *testing.T) {
	run := func(o outcome) map[string]result {
		return map[string]result{"a.bats: x": {key: "a.bats: x", outcome: o}}
	}
	tests := []struct {
		name     string
		retried  []map[string]result
		unsteady int
	}{
		{"never run again", nil, 0},
		{"passed every time", []map[string]result{run(passed), run(passed)}, 1},
		{"failed again", []map[string]result{run(failed), run(failed)}, 0},
		{"failed the second time", []map[string]result{run(passed), run(failed)}, 0},
		{"skipped", []map[string]result{run(skipped), run(passed)}, 0},
		{"missing", []map[string]result{{}, run(passed)}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := verdict{sageOnlyFailed: []result{{key: "a.bats: x", outcome: failed}}, retried: tt.retried}
			v.forgive()
			if got := len(v.unsteady); got != tt.unsteady {
				t.Errorf("got %d unsteady, want %d", got, tt.unsteady)
			}
			if got := len(v.sageOnlyFailed); got != 1-tt.unsteady {
				t.Errorf("got %d failures, want %d", got, 1-tt.unsteady)
			}
		})
	}
}

func TestFilesOf(t *testing.T) {
	got := filesOf([]result{{key: "a.bats: x"}, {key: "b.bats: y: z"}, {key: "a.bats: w"}})
	if diff := cmp.Diff([]string{"a.bats", "b.bats"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
