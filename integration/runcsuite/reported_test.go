package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAllReported(t *testing.T) {
	const before = fileMark + "a.bats\n1..2\nok 1 x\n"
	tests := []struct {
		name, text string
		want       bool
	}{
		{"nothing yet", "", false},
		{"no plan", fileMark + "b.bats\n", false},
		{"one of two", fileMark + "b.bats\n1..2\nok 1 x\n", false},
		{"both", fileMark + "b.bats\n1..2\nok 1 x\nnot ok 2 y\n# why\n", true},
		{"no test at all", fileMark + "b.bats\n1..0\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(log, []byte(before+tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := allReported(log, int64(len(before))); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
