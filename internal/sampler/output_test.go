package sampler

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/sage-sandbox/sage/internal/state"
)

// TestOutputShared: many streams at once get the limit between them and not one
// byte more, are read to their ends, and the container is ended with a reason.
//
// Proves: S-166, A-030.
func TestOutputShared(t *testing.T) {
	const limit, each = 1000, 999
	payload, dir := exec.Command("sleep", "1000"), t.TempDir()
	must(t, payload.Start())
	t.Cleanup(func() { _ = payload.Process.Kill() })
	init, err := Identify(payload.Process.Pid)
	must(t, err)
	o := NewOutput(limit)
	o.Guard(dir, init, nil)
	var wg sync.WaitGroup
	out := make([]bytes.Buffer, 4)
	for i := range out {
		wg.Go(func() {
			src := strings.NewReader(strings.Repeat("x", each))
			if err := o.Copy(&out[i], iotest.OneByteReader(src)); !errors.Is(err, io.EOF) || src.Len() > 0 {
				t.Errorf("got %v with %d bytes unread, want the end", err, src.Len())
			}
		})
	}
	wg.Wait()
	got := 0
	for i := range out {
		got += out[i].Len()
	}
	if got != limit {
		t.Errorf("got %d bytes, want %d", got, limit)
	}
	if mark, err := state.Marked(dir); err != nil || mark == nil || mark.Reason != state.OutputLimit {
		t.Errorf("got mark %+v, %v as soon as all was read, want output_limit", mark, err)
	}
	if payload.Wait() == nil {
		t.Error("the process ended by itself")
	}
}

// TestOutputEarly: what is over before there is a process ends it when it comes.
func TestOutputEarly(t *testing.T) {
	payload := exec.Command("sleep", "1000")
	must(t, payload.Start())
	t.Cleanup(func() { _ = payload.Process.Kill() })
	o := NewOutput(1)
	_ = o.Copy(io.Discard, strings.NewReader("xx"))
	init, err := Identify(payload.Process.Pid)
	must(t, err)
	o.Guard(t.TempDir(), init, nil)
	if payload.Wait() == nil {
		t.Error("the process ended by itself")
	}
}

// TestOutputExact: the limit itself is within the limit.
func TestOutputExact(t *testing.T) {
	var out bytes.Buffer
	o := NewOutput(3)
	_ = o.Copy(&out, strings.NewReader("xxx"))
	if out.String() != "xxx" || o.over {
		t.Errorf("got %q, over %v, want xxx and not over", out.String(), o.over)
	}
}
