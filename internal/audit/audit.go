// Package audit writes what happened to a container as JSON lines, one file
// for each, for those who have to answer for it later. It is not the log of
// the runtime: it has no levels, and nothing in it is meant for debugging.
package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sage-sandbox/sage/internal/state"
)

// Event is one line. Arguments, environment and file contents of a container
// never get into it.
type Event struct {
	Time    time.Time `json:"time"`
	Event   Kind      `json:"event"`
	ID      string    `json:"id"`
	Profile string    `json:"profile,omitempty"`
	Digest  string    `json:"policy_digest,omitempty"`
	Code    string    `json:"code,omitempty"`    // of a refusal
	Message string    `json:"message,omitempty"` // of a refusal
	Reason  string    `json:"reason,omitempty"`  // of an exit, as in package state
	Status  *int      `json:"status,omitempty"`  // of an exit, as a shell would have it
	Pid     int       `json:"pid,omitempty"`     // on the host
	UID     *uint32   `json:"uid,omitempty"`     // of the process, in the container
	Detail  any       `json:"detail,omitempty"`
}

// Kind is what happened.
type Kind string

// The kinds of events.
const (
	Create Kind = "create"
	Refuse Kind = "refuse"
	Start  Kind = "start"
	Exec   Kind = "exec"
	Update Kind = "update"
	Exit   Kind = "exit"
	Delete Kind = "delete"
)

// Path is the file of container id in dir, or "" where there is no dir.
func Path(dir, id string) (string, error) {
	if dir == "" {
		return "", nil
	}
	// A refusal is written before libcontainer has judged the id.
	if id == "" || id == "." || id == ".." || strings.ContainsAny(id, "/\x00") {
		return "", errors.New("audit: the id is no file name")
	}
	return filepath.Join(dir, id+".jsonl"), nil
}

// Append adds e to the file at path, made if it is not there, with the time of
// now. It is one write, so that lines of several processes do not mix. With no
// path it does nothing.
func Append(path string, e Event) error {
	if path == "" {
		return nil
	}
	e.Time = time.Now().UTC()
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// Exited appends the end of the container whose state directory is dir, if
// that has an audit file: for a shim, which sees the exit but has no policy.
func Exited(dir string, pid int, end state.Ending) error {
	if dir == "" {
		return nil // not one of this shim's
	}
	data, err := os.ReadFile(filepath.Join(dir, state.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	// Not state.Load: whatever is wrong with the policy, the end is told.
	var record struct {
		ID     string `json:"id"`
		Digest string `json:"policy_digest"`
		Audit  string `json:"audit"`
	}
	if err := json.Unmarshal(data, &record); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return Append(record.Audit, Ended(record.ID, record.Digest, pid, end))
}

// Ended is the event of a container's end.
func Ended(id, digest string, pid int, end state.Ending) Event {
	e := Event{Event: Exit, ID: id, Digest: digest, Pid: pid, Status: end.Status, Reason: string(end.Reason)}
	if end.Detail != "" {
		e.Detail = end.Detail
	}
	return e
}
