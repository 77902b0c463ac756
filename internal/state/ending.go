package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Reason is why a container ended. Reasons are only ever added: dashboards and
// scripts match on them.
type Reason string

// The reasons. Those after Signaled win over what the status alone would say.
const (
	Exited        Reason = "exited"          // by itself, with a status
	Signaled      Reason = "signaled"        // by a signal that sage knows no reason of
	Timeout       Reason = "timeout"         // timeout_seconds were over
	OOMKilled     Reason = "oom_killed"      // the kernel killed for want of memory
	PidsLimit     Reason = "pids_limit"      // ended for max_processes
	DiskQuota     Reason = "disk_quota"      // ended for the disk quota
	OutputLimit   Reason = "output_limit"    // wrote more than it may
	SamplerLimit  Reason = "sampler_limit"   // over a limit that is sampled (S-150)
	SamplerLost   Reason = "sampler_lost"    // whoever samples failed or died (S-152)
	PolicyStale   Reason = "policy_stale"    // made under a policy that is no more
	FileSizeLimit Reason = "file_size_limit" // SIGXFSZ, from RLIMIT_FSIZE (G-28)
)

// Ending is how a container ended. Nothing in it comes from the container but
// its status.
type Ending struct {
	Reason Reason `json:"reason"`
	// Status is as a shell would have it, 128 and the signal's number for one that
	// a signal ended; nil where nobody of sage was there to see it.
	Status *int      `json:"status,omitempty"`
	Detail string    `json:"detail,omitempty"`
	Time   time.Time `json:"time"`
}

const (
	markName   = "sage-mark.json"
	endingName = "sage-ending.json"
)

// Mark writes down why a container in dir is about to be killed, before it is.
// The first reason stays: one that is killed for its time is not over another
// limit because it takes a moment to die.
func Mark(dir string, reason Reason, detail string) error {
	err := create(dir, markName, Ending{Reason: reason, Detail: detail, Time: time.Now().UTC()}, os.Link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Marked gives what [Mark] wrote, nil where nothing was.
func Marked(dir string) (*Ending, error) { return loadEnding(filepath.Join(dir, markName)) }

// SaveEnding writes down how the container in dir ended.
func SaveEnding(dir string, e Ending) error { return create(dir, endingName, e, os.Rename) }

// LoadEnding gives what [SaveEnding] wrote, nil where nothing was.
func LoadEnding(dir string) (*Ending, error) { return loadEnding(filepath.Join(dir, endingName)) }

// create shows a reader all of the file or nothing; put is [os.Link] to leave
// one that is there, [os.Rename] to replace it.
func create(dir, name string, content any, put func(from, to string) error) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, "."+name+".*") // for its owner only
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone already after a rename
	_, err = tmp.Write(data)
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return put(tmp.Name(), filepath.Join(dir, name))
}

func loadEnding(path string) (*Ending, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e := &Ending{}
	if err := json.Unmarshal(data, e); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return e, nil
}
