package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/quota/xfs"
)

// Metric is a number that is read of containers, in Prometheus' terms.
type Metric struct {
	Name string // with sage_ and, by Prometheus' conventions, the unit
	Help string
	// Gauge goes up and down; all others are counters, whose names end in _total.
	Gauge   bool
	Samples []Sample
}

// Sample is the number for one container.
type Sample struct {
	Labels []Label
	Value  float64
}

// Label has a value that may be any text: some come from bundles.
type Label struct{ Name, Value string }

// Metrics reads every container below the root, at one moment each, and changes
// nothing. What cannot be read of one is left out, told in failures, and counted
// as sage_scrape_error; one that is deleted meanwhile is left out as a whole. The
// error is fs.ErrNotExist for a root that is not there.
func (h *Host) Metrics() (metrics []Metric, failures []error, err error) {
	entries, err := os.ReadDir(h.Root)
	if err != nil {
		return nil, nil, err
	}
	s := &scrape{host: h, samples: map[string][]Sample{}, mounts: map[string]*xfs.Mount{}}
	defer s.close()
	for _, entry := range entries {
		if entry.IsDir() {
			s.container(entry.Name())
		}
	}
	return s.metrics(), s.failures, nil
}

// scrape gathers by metric, as the text has them.
type scrape struct {
	host     *Host
	samples  map[string][]Sample // by the metric's name
	failures []error
	mounts   map[string]*xfs.Mount // opened so far, by path
}

func (s *scrape) close() {
	for _, m := range s.mounts {
		m.Close()
	}
}

// metrics are those of which there is something, in the order of their table.
func (s *scrape) metrics() (out []Metric) {
	for _, m := range metricTable() {
		if m.Samples = s.samples[m.Name]; len(m.Samples) > 0 {
			out = append(out, m)
		}
	}
	return out
}

// container looks again where something could not be read: meanwhile a create
// may have written it, or a delete removed the rest.
func (s *scrape) container(id string) {
	var r *reading
	for range 3 {
		r = s.read(id)
		if len(r.failures) == 0 {
			break
		}
		if s.host.beingMade(id) {
			return
		}
	}
	s.take(r)
}

// beingMade says whether a create is at work on id. Nobody else looks at that
// lock at the same time, who could take ours for a create's: they have the
// host's.
func (h *Host) beingMade(id string) bool {
	unlock, err := h.lock()
	if err != nil {
		return false
	}
	defer unlock()
	f, err := os.Open(filepath.Join(h.stateDir(id), pendingName))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(flock(f, unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// take adds what was read of one container, unless that was deleted meanwhile:
// half of its numbers are zeros then, which would look like counters that began
// again.
func (s *scrape) take(r *reading) {
	if _, err := os.Lstat(s.host.stateDir(r.id)); errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, n := range r.numbers {
		labels := append([]Label{{"id", r.id}, {"profile", r.profile}}, n.labels...)
		s.samples[n.metric] = append(s.samples[n.metric], Sample{labels, n.value})
	}
	s.failures = append(s.failures, r.failures...)
}

// reading is what was read of one container.
type reading struct {
	id, profile string
	numbers     []measured
	failures    []error
}

type measured struct {
	metric string
	value  float64
	labels []Label // beside the container's
}

func (r *reading) add(metric string, value float64, labels ...Label) {
	r.numbers = append(r.numbers, measured{metric, value, labels})
}

// fail tells of a part that could not be read, to people and in the metrics:
// whoever scrapes seldom sees what was said.
func (r *reading) fail(part string, err error) {
	if err == nil {
		return
	}
	r.failures = append(r.failures, fmt.Errorf("container %s: %s: %w", r.id, part, err))
	r.add("sage_scrape_error", 1, Label{"part", part})
}

// read takes parts one by one, so that one that fails hides no other.
func (s *scrape) read(id string) *reading {
	r := &reading{id: id}
	c, err := s.host.Load(id)
	if errors.Is(err, libcontainer.ErrNotExist) {
		return r // it is about to be made, or was killed while it was, or is gone
	}
	var record *state.Record
	var status libcontainer.Status
	if err == nil {
		status, err = c.c.Status()
	}
	if err == nil {
		if record, err = c.policy(); status == libcontainer.Stopped && errors.Is(err, fs.ErrNotExist) {
			return r // it is being deleted
		}
	}
	if err != nil {
		r.fail("state", err)
		return r
	}
	r.profile = "compat"
	if record != nil {
		r.profile = record.Policy.Profile
	}
	r.running(c, record, status)
	if record != nil && record.Disk != nil {
		r.fail("disk", s.disk(r, record))
	}
	if proxied(record) {
		r.fail("egress", r.egress(s.host, status == libcontainer.Stopped))
	}
	return r
}

// running adds what there is only as long as the container runs. What was read
// of one that ended while it was read is thrown away, for it is not whole.
func (r *reading) running(c *Container, record *state.Record, status libcontainer.Status) {
	live := &reading{id: r.id}
	if status != libcontainer.Stopped {
		live.fail("cgroup", live.cgroup(c))
		if proxied(record) {
			live.proxy(c.host)
		}
		if now, err := c.c.Status(); err != nil || now == libcontainer.Stopped {
			live, status = &reading{}, libcontainer.Stopped
		}
	}
	running := 0.0
	if status == libcontainer.Running || status == libcontainer.Paused {
		running = 1
	}
	r.add("sage_container_running", running)
	r.numbers = append(r.numbers, live.numbers...)
	r.failures = append(r.failures, live.failures...)
}
