package sampler

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sage-sandbox/sage/internal/state"
)

// Output counts what a container's first process writes to its standard output
// and error, and ends the container when that is more than it may write (S-166,
// S-167, A-030). Whoever stands between the container and the reader uses it.
type Output struct {
	limit int64
	// guarded is closed by Guard: the pipes are there before the process is.
	guarded chan struct{}
	plan    *Plan
	dir     string

	mu   sync.Mutex
	left int64 // guarded by mu
	over bool  // guarded by mu
}

// NewOutput is for a container that may write limit bytes, on all of its streams
// together.
func NewOutput(limit int64) *Output {
	return &Output{limit: limit, left: limit, guarded: make(chan struct{})}
}

// Guard says whom to end: the process init, with what is in the cgroups. dir is
// the container's state directory. It is called once, before its program begins.
func (o *Output) Guard(dir string, init Process, cgroups map[string]string) {
	o.dir, o.plan = dir, &Plan{Init: init, Cgroups: cgroups}
	close(o.guarded)
}

// Copy passes src on to dst, as far as the limit goes. Beyond, it reads on until
// the end, so that nothing waits for a reader that is not there. One that fails
// to be written to ends it, as with [io.Copy], which a nil Output is.
func (o *Output) Copy(dst io.Writer, src io.Reader) error {
	if o == nil {
		_, err := io.Copy(dst, src)
		return err
	}
	buf := make([]byte, 32<<10)
	for {
		n, readErr := src.Read(buf)
		if granted := o.grant(n); granted > 0 {
			if _, err := dst.Write(buf[:granted]); err != nil {
				return err
			}
		}
		if readErr != nil {
			return readErr
		}
	}
}

// grant says how many of n bytes may be passed on. The first byte too many ends
// the container; the kill does not wait for who reads the bytes before it.
func (o *Output) grant(n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	granted := int(min(int64(n), o.left))
	o.left -= int64(granted)
	if granted < n && !o.over {
		o.over = true
		o.end()
	}
	return granted
}

// end has written down the reason when it returns, for who asks for it after the
// last byte, where the program ended before it could be killed.
func (o *Output) end() {
	detail := fmt.Sprintf("wrote more than %d bytes", o.limit)
	kill := func() { o.plan.End(o.dir, state.OutputLimit, detail) }
	select {
	case <-o.guarded:
		_ = state.Mark(o.dir, state.OutputLimit, detail) // End would say so
		go kill()
	default: // what writes so early is no program of the container's yet
		go func() { <-o.guarded; kill() }()
	}
}

// OutputEnv names to "create" a directory in which its caller has prepared to
// count the output, as our shim does. No bundle can set it.
const OutputEnv = "SAGE_OUTPUT"

// pending ends the names of the FIFOs in that directory.
const pending = ".fifo"

// OutputNames are those of a stream in the directory that [OutputEnv] names: link,
// to be opened for writing, which leads to where the output would go without a
// limit, and fifo, which [Divert] puts in its place.
func OutputNames(dir, stream string) (link, fifo string) {
	link = filepath.Join(dir, stream)
	return link, link + pending
}

// Divert accepts that the caller of "create" counts. It learns so by what it
// finds in dir, and no limit is accepted without: that dir is missing is an error.
func Divert(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if link, ok := strings.CutSuffix(entry.Name(), pending); ok {
			if err := os.Rename(filepath.Join(dir, entry.Name()), filepath.Join(dir, link)); err != nil {
				return err
			}
		}
	}
	return nil
}
