package runtime

import (
	"encoding/json"

	"github.com/opencontainers/runc/libcontainer"

	"github.com/sage-sandbox/sage/internal/doctor"
	"github.com/sage-sandbox/sage/internal/state"
)

// ahead does on another processor what the start of a process will ask for in a
// moment, whatever comes of reading the bundle meanwhile. Most of it is what
// encoding/json does the first time that it meets a type: some milliseconds for
// those of libcontainer, which a runtime pays at every start.
func (l *Launch) ahead() {
	l.policy = async(l.Host.Policy)
	go func() {
		_, _ = json.Marshal(&libcontainer.State{})
		doctor.Prepare()
		_, _ = json.Marshal(&state.Record{})
	}()
}

// async starts f and returns a function that waits for what it returns.
func async[T any](f func() (T, error)) func() (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	return func() (T, error) {
		r := <-done
		return r.value, r.err
	}
}
