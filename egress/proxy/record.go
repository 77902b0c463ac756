package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
)

// record is what others can know of this process: counters and audit.
type record struct {
	words     []uint64
	container string
	dials     string

	mu      sync.Mutex
	files   []*os.File // written by turns; nil is no audit
	current int
	size    int64 // of the current one
	max     int64
}

// newRecord takes over the descriptors that c names.
func newRecord(c egress.ProxyConfig) (*record, error) {
	r := &record{container: c.Container, dials: c.DialsFrom, max: c.AuditMax}
	if c.Counters < 0 {
		r.words = make([]uint64, egress.NumCounters)
	} else {
		words, err := sys.MapWords(c.Counters, int(egress.NumCounters))
		if err != nil {
			return nil, fmt.Errorf("counters: %w", err)
		}
		r.words = words
	}
	if n := len(c.Audit); n != 0 && n != 2 {
		return nil, fmt.Errorf("audit: saw %d files, want two or none", n)
	}
	for i, fd := range c.Audit {
		r.files = append(r.files, os.NewFile(uintptr(fd), fmt.Sprintf("audit %d", i)))
	}
	return r, r.resume()
}

// resume goes on where an earlier proxy of the container stopped: in the file
// with room, of two with room in the emptier one, which was begun last.
func (r *record) resume() error {
	if len(r.files) == 0 {
		return nil
	}
	var sizes [2]int64
	for i, f := range r.files {
		size, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		sizes[i] = size
	}
	if sizes[1] > 0 && (sizes[0] >= r.max || sizes[1] < sizes[0]) {
		r.current = 1
	}
	r.size = sizes[r.current]
	return nil
}

func (r *record) close() error {
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// add changes a counter; a negative number makes a gauge go down.
func (r *record) add(c egress.Counter, n int64) {
	atomic.AddUint64(&r.words[c], uint64(n))
}

// denied counts one denial. That with its code comes first: who reads the file
// from its beginning meanwhile never sees more denials than codes.
func (r *record) denied(code errcode.Code) {
	if c, ok := egress.DenialCounter(code); ok {
		r.add(c, 1)
	}
	r.add(egress.CounterDenied, 1)
}

// write appends one line. It is whole or it is not there: one write(2) on a
// file opened for append. A line that cannot be written is counted, and the
// connection goes on: the disk of the host must not decide for the policy.
func (r *record) write(line egress.AuditLine) {
	if len(r.files) == 0 {
		return
	}
	line.Container, line.Dials = r.container, r.dials
	text, err := json.Marshal(line)
	if err == nil {
		err = r.append(append(text, '\n'))
	}
	if err != nil {
		r.add(egress.CounterAuditLost, 1)
	}
}

func (r *record) append(text []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size > 0 && r.size+int64(len(text)) > r.max {
		r.current ^= 1
		r.size = 0
		if err := r.files[r.current].Truncate(0); err != nil {
			return err
		}
	}
	n, err := r.files[r.current].Write(text)
	r.size += int64(n)
	return err
}
