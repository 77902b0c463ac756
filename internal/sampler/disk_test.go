package sampler

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func write(t *testing.T, path string, size int) {
	t.Helper()
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMeasure: allocated blocks count, names of one file once, and nothing that a
// symbolic link leads to.
//
// Proves: G-17.
func TestMeasure(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(other, "large"), 8<<20)
	must(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o700))
	write(t, filepath.Join(dir, "a/b/one"), 1<<20)
	must(t, os.Link(filepath.Join(dir, "a/b/one"), filepath.Join(dir, "again")))
	must(t, os.Symlink(other, filepath.Join(dir, "link")))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	f, err := os.Create(filepath.Join(dir, "sparse"))
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(1<<40))
	got, err := Measure(dir)
	must(t, err)
	if got.Bytes < 1<<20 || got.Bytes > 1<<20+64<<10 {
		t.Errorf("got %d bytes, want 1 MiB and some directories", got.Bytes)
	}
	if want := int64(8); got.Entries != want {
		t.Errorf("got %d entries, want %d", got.Entries, want)
	}
	one, err := Measure(filepath.Join(other, "large"))
	if err != nil || one.Bytes < 8<<20 || one.Entries != 1 {
		t.Errorf("a file: got %+v, %v, want 8 MiB", one, err)
	}
	if _, err := Measure(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

// TestUsage: the base is taken off, files without a name count, and a walk ends
// above the limits.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "before"), 4<<20)
	base, err := Measure(dir)
	must(t, err)
	p := &Plan{Limits: Limits{DiskBytes: 2 << 20, Entries: 10}, Places: []Place{{dir, base}}}
	used := func() (Usage, error) { return p.usage([]int{os.Getpid()}) }
	first, err := used()
	must(t, err)
	write(t, filepath.Join(dir, "mine"), 1<<20)
	got, err := used()
	must(t, err)
	if grown := got.Bytes - first.Bytes; grown < 1<<20 || grown > 1<<20+16<<10 {
		t.Errorf("got %d bytes more, want 1 MiB", grown)
	}
	f, err := os.Create(filepath.Join(dir, "unnamed"))
	must(t, err)
	defer f.Close()
	must(t, os.Remove(f.Name()))
	_, err = f.Write(make([]byte, 2<<20))
	must(t, err)
	if _, err := used(); !errors.Is(err, errOver) {
		t.Errorf("with a file that has no name: got %v, want errOver", err)
	}
	must(t, f.Truncate(0))
	for i := range 11 {
		write(t, filepath.Join(dir, strings.Repeat("x", i+1)), 0)
	}
	if _, err := used(); !errors.Is(err, errOver) {
		t.Errorf("with many names: got %v, want errOver", err)
	}
}

// TestUsageDeep: a tree that would take all descriptors is not walked to its end.
func TestUsageDeep(t *testing.T) {
	dir := t.TempDir()
	path := dir + strings.Repeat("/d", maxDepth+2)
	must(t, os.MkdirAll(path, 0o700))
	if _, err := Measure(dir); !errors.Is(err, errTooDeep) {
		t.Errorf("got %v, want errTooDeep", err)
	}
}

// TestMeasureRaces: names that are exchanged during the walk are no failure.
func TestMeasureRaces(t *testing.T) {
	dir, stop := t.TempDir(), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		name := filepath.Join(dir, "x")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Mkdir(name, 0o700)
			_ = os.Remove(name)
			_ = os.Symlink("/", name)
			_ = os.Remove(name)
		}
	}()
	for range 500 {
		if _, err := Measure(dir); err != nil {
			t.Errorf("got %v, want what is there", err)
		}
	}
	close(stop)
	<-done
}

// TestSchedule: seldom while nothing is written, at once when much is, and never
// for more than a part of the time.
func TestSchedule(t *testing.T) {
	now := time.Unix(1000, 0)
	limits := Limits{DiskBytes: 1 << 30, Entries: 1000}
	for name, tt := range map[string]struct {
		after, cost time.Duration
		lost        Usage
		want        bool
	}{
		"quiet":                  {2 * time.Second, 0, Usage{}, false},
		"quiet for long":         {10 * time.Second, 0, Usage{}, true},
		"some is written":        {time.Second, 0, Usage{Bytes: 128 << 20}, true},
		"some, but too early":    {900 * time.Millisecond, 0, Usage{Bytes: 128 << 20}, false},
		"some, but dear":         {time.Second, 100 * time.Millisecond, Usage{Bytes: 128 << 20}, false},
		"much is written":        {100 * time.Millisecond, 0, Usage{Bytes: 600 << 20}, true},
		"much, and dear":         {100 * time.Millisecond, 50 * time.Millisecond, Usage{Bytes: 600 << 20}, false},
		"much, dear, a bit on":   {200 * time.Millisecond, 50 * time.Millisecond, Usage{Bytes: 600 << 20}, true},
		"many files are written": {100 * time.Millisecond, 0, Usage{Entries: 600}, true},
		"others freed":           {time.Second, 0, Usage{Bytes: -5 << 30}, false},
	} {
		t.Run(name, func(t *testing.T) {
			room := Usage{Bytes: 100 << 30, Entries: 1e6}
			var s schedule
			if !s.due(now, room, limits) {
				t.Error("got no first walk")
			}
			s.walked(now.Add(-tt.cost), now, Usage{})
			s.due(now, room, limits) // takes the room
			room.Bytes -= tt.lost.Bytes
			room.Entries -= tt.lost.Entries
			if got := s.due(now.Add(tt.after), room, limits); got != tt.want {
				t.Errorf("due after %v: got %v, want %v", tt.after, got, tt.want)
			}
		})
	}
}
