package state

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestMark: of many reasons at once one stays, the first, and no other file.
func TestMark(t *testing.T) {
	dir := t.TempDir()
	if e, err := Marked(dir); e != nil || err != nil {
		t.Errorf("got %v, %v, want none", e, err)
	}
	if err := Mark(dir, Timeout, "first"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := Mark(dir, SamplerLimit, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if e, err := Marked(dir); err != nil || e.Reason != Timeout || e.Detail != "first" {
		t.Errorf("got %+v, %v, want the first", e, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want the one file", entries, err)
	}
	if err := Mark(filepath.Join(dir, "missing"), Timeout, ""); err == nil {
		t.Error("in a directory that is not there: got no error")
	}
}

// TestEnding: the last word stays.
func TestEnding(t *testing.T) {
	dir := t.TempDir()
	for _, status := range []int{1, 137} {
		if err := SaveEnding(dir, Ending{Reason: Exited, Status: &status}); err != nil {
			t.Fatal(err)
		}
	}
	if e, err := LoadEnding(dir); err != nil || *e.Status != 137 {
		t.Errorf("got %+v, %v, want the last", e, err)
	}
	if err := os.WriteFile(filepath.Join(dir, endingName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := LoadEnding(dir); e != nil || err == nil {
		t.Errorf("cut short: got %+v, %v, want an error", e, err)
	}
}
