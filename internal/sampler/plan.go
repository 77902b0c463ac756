package sampler

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Plan is what is watched of one container. It is made between create and
// start, by whoever creates the container, and carried out by another process
// as often as not.
type Plan struct {
	ID string `json:"id"`
	// Init is the container's first process, by its number on the host.
	Init Process `json:"init"`
	// Cgroups are directories by controller, one under "" for cgroup v2.
	Cgroups map[string]string `json:"cgroups"`
	// Seconds is how long the container may run, 0 for ever.
	Seconds int64 `json:"seconds,omitempty"`
	// Limits are those that the kernel does not hold.
	Limits Limits  `json:"limits"`
	Places []Place `json:"places,omitempty"`
}

// Limits are what is sampled; 0 is not.
type Limits struct {
	MemoryBytes int64 `json:"memory_bytes,omitempty"` // resident, of all processes together
	Processes   int64 `json:"processes,omitempty"`    // threads count
	CPUQuota    int64 `json:"cpu_quota_us,omitempty"` // µs of CPU time per 100 ms
	DiskBytes   int64 `json:"disk_bytes,omitempty"`   // allocated, in all places together
	Entries     int64 `json:"entries,omitempty"`      // names in directories, likewise
}

// Place is a directory or a file on the host that the container can write.
type Place struct {
	Path string `json:"path"`
	// Base is what was there before, which is not the container's doing.
	Base Usage `json:"base"`
}

// Usage is how much of a disk is in use.
type Usage struct {
	Bytes   int64 `json:"bytes"` // allocated (st_blocks), whatever the size (G-17)
	Entries int64 `json:"entries"`
}

// planName is the file in the container's state directory. That it is there
// means that the container must not run unwatched.
const planName = "sage-watch.json"

// Needed says whether there is anything to watch.
func (p *Plan) Needed() bool { return p.Seconds > 0 || p.sampled() }

func (p *Plan) sampled() bool { return p.Limits != Limits{} }

// timeout saturates: a policy may allow more seconds than a Duration can hold.
func (p *Plan) timeout() time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(min(p.Seconds, most)) * time.Second
}

// Save writes p to the container's state directory.
func (p *Plan) Save(dir string) error { return writeJSON(dir, planName, p) }

// Load reads what [Plan.Save] wrote, and gives nil where nothing is to be
// watched.
func Load(dir string) (*Plan, error) {
	p := &Plan{}
	if err := readJSON(dir, planName, p); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	return p, nil
}

// Cgroups gives the cgroup directories of the container whose state directory is
// dir, as libcontainer saved them: for a shim, which links no libcontainer.
func Cgroups(dir string) (map[string]string, error) {
	var saved struct {
		Paths map[string]string `json:"cgroup_paths"`
	}
	err := readJSON(dir, "state.json", &saved)
	return saved.Paths, err
}

func writeJSON(dir, name string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, "."+name)
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, name))
}

func readJSON(dir, name string, into any) error {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}
