package audit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sage-sandbox/sage/internal/state"
)

func lines(t *testing.T, path string) (events []Event) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if since := time.Since(e.Time); since < 0 || since > time.Minute {
			t.Errorf("got time %v, want now", e.Time)
		}
		e.Time = time.Time{}
		events = append(events, e)
	}
	return events
}

func TestAppend(t *testing.T) {
	path, err := Path(t.TempDir(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	want := []Event{
		{Event: Create, ID: "c1", Profile: "sage", Digest: "d", Pid: 7},
		{Event: Refuse, ID: "c1", Code: "sandbox.x_y", Message: "two\nlines"},
	}
	for _, e := range want {
		if err := Append(path, e); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, lines(t, path)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestAppendTogether: lines of several writers are whole.
func TestAppendTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c1.jsonl")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := Append(path, Event{Event: Exec, Message: strings.Repeat("x", 5000)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := len(lines(t, path)); got != 400 {
		t.Errorf("got %d lines, want 400", got)
	}
}

func TestPath(t *testing.T) {
	for _, id := range []string{"", ".", "..", "a/b", "../x", "a\x00b"} {
		if got, err := Path("/d", id); err == nil {
			t.Errorf("Path(%q): got %q, want an error", id, got)
		}
	}
	if got, err := Path("", "a/b"); got != "" || err != nil {
		t.Errorf("without a directory: got %q, %v, want nothing", got, err)
	}
	if err := Append("", Event{}); err != nil {
		t.Errorf("without a file: got %v, want nothing done", err)
	}
	if err := Append("/nonexistent/x", Event{}); err == nil {
		t.Error("in a directory that is not there: got no error")
	}
}

func TestExited(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c1.jsonl")
	if err := Exited(dir, 1, state.Ending{}); err != nil {
		t.Errorf("a container without policy: got %v, want nothing done", err)
	}
	record := `{"id":"c1","policy_digest":"d","audit":"` + file + `"}`
	if err := os.WriteFile(filepath.Join(dir, "sage.json"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, end := range []state.Ending{
		{Reason: state.Exited, Status: new(3)},
		{Reason: state.Timeout, Status: new(137), Detail: "ran for 5 s"},
		{}, // by who is not told the status
	} {
		if err := Exited(dir, 9, end); err != nil {
			t.Fatal(err)
		}
	}
	want := []Event{
		{Event: Exit, ID: "c1", Digest: "d", Pid: 9, Status: new(3), Reason: "exited"},
		{Event: Exit, ID: "c1", Digest: "d", Pid: 9, Status: new(137), Reason: "timeout", Detail: "ran for 5 s"},
		{Event: Exit, ID: "c1", Digest: "d", Pid: 9},
	}
	if diff := cmp.Diff(want, lines(t, file)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(filepath.Join(dir, "sage.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Exited(dir, 1, state.Ending{}); err == nil {
		t.Error("a record that is cut short: got no error")
	}
}
