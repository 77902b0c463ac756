package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runc/libcontainer"

	"github.com/sage-sandbox/sage/internal/doctor"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/spec"
)

// Attestation is what the kernel enforces for a container now, held against
// its policy.
type Attestation struct {
	ID      string     `json:"id"`
	Profile string     `json:"profile"`
	Digest  string     `json:"policy_digest"`
	OK      bool       `json:"ok"`
	Lines   []Attested `json:"lines"`
}

// Attested is one thing that was asked of the kernel.
type Attested struct {
	Pid int `json:"pid,omitempty"` // on the host; 0 for what is of the container as a whole
	TID int `json:"tid,omitempty"`

	doctor.Line
}

// Attest asks the kernel about every thread of every process of the container.
// It stops each for a moment. One that ends meanwhile is left out.
func (c *Container) Attest() (*Attestation, error) {
	record, err := c.policy()
	if err != nil {
		return nil, err
	}
	if record == nil {
		return nil, errcode.Wrap(errcode.CapabilityUnsupported, "attest",
			errors.New("the container is under no policy of sage's (profile compat): there is nothing to hold it against"))
	}
	a := &Attestation{ID: record.ID, Profile: record.Policy.Profile, Digest: record.Digest}
	if err := a.processes(c, record); err != nil {
		return nil, err
	}
	if err := cmp.Or(a.limits(c, record), a.network(c, record)); err != nil {
		return nil, err
	}
	a.OK = !slices.ContainsFunc(a.Lines, func(l Attested) bool { return !l.OK })
	return a, nil
}

func (a *Attestation) processes(c *Container, record *state.Record) error {
	pids, err := c.Processes()
	if err != nil {
		return err
	}
	created, err := c.waiting()
	if err != nil {
		return err
	}
	saved, err := c.c.State()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		w := watched{pid: pid, init: pid == saved.InitProcessPid, created: created}
		if err := a.process(w, record); err != nil && !errors.Is(err, doctor.ErrEnded) {
			return err
		}
	}
	return nil
}

// watched is a process to attest.
type watched struct {
	pid           int
	init, created bool
}

// waiting says that init has not begun its program yet. Of its threads, those
// of the Go runtime are under no filter then, and end when it does.
func (c *Container) waiting() (bool, error) {
	status, err := c.c.Status()
	return status.String() == "created", err
}

func (a *Attestation) process(w watched, record *state.Record) error {
	threads, err := w.threads()
	if err != nil {
		return err
	}
	for _, t := range threads {
		want := record.Posture
		if !w.init {
			want = ofAnyUser(want, t.Posture, record.Policy)
		}
		for _, line := range doctor.Lines(want, t.Posture, w.created) {
			a.Lines = append(a.Lines, Attested{Pid: w.pid, TID: t.TID, Line: line})
		}
	}
	return nil
}

// threads leaves out those that a waiting init has for itself.
func (w watched) threads() ([]doctor.Thread, error) {
	if !w.created {
		return doctor.Threads(w.pid)
	}
	got, err := doctor.CollectWaiting(w.pid)
	return []doctor.Thread{{TID: w.pid, Posture: got}}, err
}

// ofAnyUser is for what may be of an exec, which chooses its user within the
// policy: root again only where the container may have it.
func ofAnyUser(want, got spec.Posture, p spec.Policy) spec.Posture {
	if p.Process.RequireNonRoot && (got.UID == 0 || got.GID == 0) {
		return want
	}
	want.UID, want.GID, want.Groups = got.UID, got.GID, got.Groups
	return want
}

// limits compares what the cgroup grants with the policy, than which it may be
// less, as update may have tightened it; and where the limits are hard, every
// file with what was last written to it.
func (a *Attestation) limits(c *Container, record *state.Record) error {
	saved, err := c.c.State()
	if err != nil {
		return err
	}
	r := record.Policy.Resources
	for _, l := range []struct {
		field, controller, v1, v2 string
		want                      int64
	}{
		{"resources.memory", "memory", "memory.limit_in_bytes", "memory.max", r.MemoryBytes},
		{"resources.pids", "pids", "pids.max", "pids.max", r.MaxProcesses},
		{"resources.cpu_quota", "cpu", "cpu.cfs_quota_us", "cpu.max", r.CPUQuota},
	} {
		got, err := readLimit(saved.CgroupPaths, l.controller, l.v1, l.v2)
		if err != nil {
			return fmt.Errorf("%s: %w", l.field, err)
		}
		a.Lines = append(a.Lines, Attested{Line: doctor.Line{
			Difference: doctor.Difference{Field: l.field, Want: fmt.Sprintf("at most %d", l.want), Got: strconv.FormatInt(got, 10)},
			OK:         got >= 0 && got <= l.want,
		}})
	}
	return cmp.Or(a.hardLimits(record, saved), a.diskLimits(record))
}

func (a *Attestation) hardLimits(record *state.Record, saved *libcontainer.State) error {
	g := limitedBy(record, saved)
	if g == nil {
		return nil
	}
	held, err := g.read()
	if err == nil {
		held.Above, err = g.above(held.Limits)
	}
	if err != nil {
		return errcode.Wrap(errcode.EnforcementFailed, "read back the limits in "+g.dir, err)
	}
	for _, l := range held.lines {
		a.Lines = append(a.Lines, Attested{Line: doctor.Line{Difference: doctor.Difference{Field: l.Name, Want: l.Want, Got: l.Got}, OK: l.OK()}})
	}
	for _, l := range held.Above {
		// It takes nothing from what the policy promises: that no more is had.
		a.Lines = append(a.Lines, Attested{Line: doctor.Line{Difference: doctor.Difference{Field: l.File + " of " + l.Cgroup, Want: "any", Got: l.Limit}, OK: true}})
	}
	return nil
}

// readLimit gives -1 for none. The paths are by controller for cgroup v1, and
// one under "" for v2, which has none of v1's where both are mounted.
func readLimit(paths map[string]string, controller, v1, v2 string) (int64, error) {
	path := filepath.Join(paths[""], v2)
	if dir, ok := paths[controller]; ok {
		path = filepath.Join(dir, v1)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(data)), " ") // cpu.max: quota and period
	if first == "max" {
		return -1, nil
	}
	return strconv.ParseInt(first, 10, 64)
}

// Problems says what is not as the policy wants it, for people.
func (a *Attestation) Problems() string {
	var problems []string
	for _, l := range a.Lines {
		if !l.OK {
			problems = append(problems, fmt.Sprintf("process %d: %s: saw %s, want %s", l.Pid, l.Field, l.Got, l.Want))
		}
	}
	return strings.Join(problems, "; ")
}
