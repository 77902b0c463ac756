package shim

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	eventsapi "github.com/containerd/containerd/api/events"
	taskapi "github.com/containerd/containerd/api/runtime/task/v3"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sampler"
	"github.com/sage-sandbox/sage/internal/state"
)

// fifos makes what an engine makes, and holds their reading ends.
func fifos(t *testing.T, names ...string) (paths []string, readers []*os.File) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(t.TempDir(), name)
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		paths, readers = append(paths, path), append(readers, r)
	}
	return paths, readers
}

// TestDivertOnlyFIFOs: of no other output does the runtime hear that somebody
// counts it.
//
// Proves: S-166.
func TestDivertOnlyFIFOs(t *testing.T) {
	paths, _ := fifos(t, "out", "err")
	out, errs := paths[0], paths[1]
	file := filepath.Join(t.TempDir(), "log")
	write(t, file, "")
	t.Chdir(filepath.Dir(out))
	for name, tt := range map[string]struct {
		stdout, stderr string
		checkpoint     string
		want           bool
	}{
		"both":           {out, errs, "", true},
		"one":            {out, "", "", true},
		"none":           {"", "", "", true},
		"the same twice": {out, out, "", true},
		"a program":      {"binary:///bin/logger", "binary:///bin/logger", "", false},
		"a file's URI":   {"file://" + file, "", "", false},
		"a file":         {file, errs, "", false},
		"a FIFO's URI":   {"fifo://" + out, "", "", false},
		"missing":        {out + "x", errs, "", false},
		"relative":       {"out", "", "", false},
		"a checkpoint":   {out, errs, "/image", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &taskapi.CreateTaskRequest{Bundle: t.TempDir(), Stdout: tt.stdout, Stderr: tt.stderr, Checkpoint: tt.checkpoint}
			o, err := divert(r)
			if err != nil || (o != nil) != tt.want {
				t.Fatalf("got %v, %v, want that it counts: %v", o, err, tt.want)
			}
			if o == nil && (r.Stdout != tt.stdout || r.Stderr != tt.stderr) {
				t.Errorf("got %q and %q, want the engine's names", r.Stdout, r.Stderr)
			}
			if o == nil {
				return
			}
			defer o.end()
			for _, names := range [][2]string{{r.Stdout, tt.stdout}, {r.Stderr, tt.stderr}} {
				if to, _ := os.Readlink(names[0]); to != names[1] {
					t.Errorf("%s leads to %q, want %q", names[0], to, names[1])
				}
			}
			said, event := &taskapi.StateResponse{Stdout: r.Stdout, Stderr: r.Stderr}, &eventsapi.TaskCreate{IO: &eventsapi.TaskIO{Stdout: r.Stdout}}
			o.restore(&said.Stdout, &said.Stderr)
			o.restoreEvent(event)
			if said.Stdout != tt.stdout || said.Stderr != tt.stderr || event.IO.Stdout != tt.stdout {
				t.Errorf("the engine is told %v and %v, want its own names", said, event)
			}
		})
	}
}

// TestOutputWithoutLimit: where the runtime changes nothing, the service writes
// to the engine's FIFO, and nothing of ours stays open.
func TestOutputWithoutLimit(t *testing.T) {
	paths, readers := fifos(t, "out")
	r := &taskapi.CreateTaskRequest{Bundle: t.TempDir(), Stdout: paths[0]}
	o, err := divert(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.begin("/no/state", 1); err != nil {
		t.Fatal(err)
	}
	o.drained(0) // returns, as there is nothing
	select {
	case <-o.ended:
	default:
		t.Error("there is something to wait for")
	}
	w := openWrite(t, r.Stdout)
	send(t, w, "hello")
	_ = w.Close()
	if got, _ := io.ReadAll(readers[0]); string(got) != "hello" {
		t.Errorf("got %q, want hello", got)
	}
}

// TestOutputCounted: both streams draw on one limit, the engine reads what is
// within it and then the end, and the process is ended.
//
// Proves: S-166, S-167.
func TestOutputCounted(t *testing.T) {
	record := state.Record{ID: "c1"}
	record.Policy.Process.MaxOutputBytes = 8
	dir := stateOf(t, "")
	if err := state.Save(dir, &record); err != nil {
		t.Fatal(err)
	}
	paths, readers := fifos(t, "out", "err")
	r := &taskapi.CreateTaskRequest{Bundle: t.TempDir(), Stdout: paths[0], Stderr: paths[1]}
	o, err := divert(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := sampler.Divert(o.dir); err != nil {
		t.Fatal(err)
	}
	payload := sleeping(t)
	outW, errW := openWrite(t, r.Stdout), openWrite(t, r.Stderr)
	if err := o.begin(dir, payload.Process.Pid); err != nil {
		t.Fatal(err)
	}
	send(t, outW, "12345")
	expectRead(t, readers[0], "12345")
	send(t, errW, "abcdef")
	expectRead(t, readers[1], "abc")
	if err := payload.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
	send(t, outW, "more")
	_, _ = outW.Close(), errW.Close()
	o.drained(10 * time.Second)
	for _, reader := range readers {
		if got, err := io.ReadAll(reader); len(got) > 0 || err != nil {
			t.Errorf("got %q, %v after the limit, want the end", got, err)
		}
	}
}

// TestOutputNotBegun: a runtime that asks for a count and leaves no record is an
// error, not a container without a limit.
func TestOutputNotBegun(t *testing.T) {
	for name, dir := range map[string]string{"no record": t.TempDir(), "cut short": stateOf(t, `{"version":1`)} {
		t.Run(name, func(t *testing.T) {
			paths, _ := fifos(t, "out")
			o, err := divert(&taskapi.CreateTaskRequest{Bundle: t.TempDir(), Stdout: paths[0]})
			if err != nil {
				t.Fatal(err)
			}
			if err := sampler.Divert(o.dir); err != nil {
				t.Fatal(err)
			}
			if err := o.begin(dir, os.Getpid()); err == nil {
				t.Error("got no error")
			}
			o.drained(time.Second)
		})
	}
	if err := sampler.Divert(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a caller who has prepared nothing: got no error")
	}
}

// stateOf is the state directory of a container without a cgroup.
func stateOf(t *testing.T, record string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sage.json"), record)
	write(t, filepath.Join(dir, "state.json"), `{"cgroup_paths":{}}`)
	return dir
}

func sleeping(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

func openWrite(t *testing.T, path string) *os.File {
	t.Helper()
	w, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func send(t *testing.T, w *os.File, text string) {
	t.Helper()
	if _, err := w.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func expectRead(t *testing.T, r *os.File, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if err := r.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
