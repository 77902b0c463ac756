package quota

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ProjectID is the number of an XFS project. 0 is what belongs to none.
type ProjectID uint32

// MaxProjectID is the last that sage takes: kubelet hands out those from
// 1048577 on (its quota for local storage).
const MaxProjectID ProjectID = 1048576

// Range is what a host lets sage take, both ends in it; zero is none.
type Range struct{ First, Last ProjectID }

// Size is how many ids there are.
func (r Range) Size() uint32 {
	if r.First == 0 || r.Last < r.First {
		return 0
	}
	return uint32(r.Last-r.First) + 1
}

// Has says whether id lies in the range.
func (r Range) Has(id ProjectID) bool { return r.Size() > 0 && r.First <= id && id <= r.Last }

// DefaultRange is that of a host whose file names none.
var DefaultRange = Range{First: 100_000, Last: 199_999}

// Check refuses a range that is empty or reaches where kubelet's begin.
func (r Range) Check() error {
	if r.Size() == 0 || r.Last > MaxProjectID {
		return fmt.Errorf("quota.project_ids: saw %d-%d, want FIRST-LAST, both from 1 to %d", r.First, r.Last, MaxProjectID)
	}
	return nil
}

// Named are the ids of /etc/projects and /etc/projid. They are an
// administrator's, whether or not anything has been put into them yet.
type Named map[ProjectID]bool

// ParseNamed reads the texts of both files, projects(5) and projid(5): lines of
// ID:DIRECTORY in the first and NAME:ID in the second. A line that cannot be
// read is an error, since it could name an id that is then taken.
func ParseNamed(projects, projid string) (Named, error) {
	named := Named{}
	if err := named.read(projects, func(id, _ string) string { return id }); err != nil {
		return nil, fmt.Errorf("/etc/projects: %w", err)
	}
	if err := named.read(projid, func(_, id string) string { return id }); err != nil {
		return nil, fmt.Errorf("/etc/projid: %w", err)
	}
	return named, nil
}

func (n Named) read(text string, field func(first, second string) string) error {
	line := 0
	for s := range strings.Lines(text) {
		line++
		s = strings.TrimSpace(s)
		if s == "" || strings.HasPrefix(s, "#") {
			continue
		}
		first, second, _ := strings.Cut(s, ":")
		second, _, _ = strings.Cut(second, ":")
		id, err := strconv.ParseUint(strings.TrimSpace(field(first, second)), 10, 32)
		if err != nil {
			return fmt.Errorf("line %d: saw no project id, want a number", line)
		}
		n[ProjectID(id)] = true
	}
	return nil
}

// ErrExhausted says that every id of the range is in use.
var ErrExhausted = errors.New("quota.project_ids: no id of the range is free")

// Choose finds a free id of the range: first by tries at random places, which
// costs the same however many are in use, then one after the other. random
// gives a number below n; taken asks whoever keeps the ids, and is not asked
// about those that an administrator named.
func Choose(r Range, named Named, random func(n uint32) uint32, taken func(ProjectID) (bool, error)) (ProjectID, error) {
	if err := r.Check(); err != nil {
		return 0, err
	}
	size := r.Size()
	start := random(size)
	for i := range size + tries {
		at := start + (i - tries)
		if i < tries {
			at = random(size)
		}
		id := r.First + ProjectID(at%size)
		if named[id] {
			continue
		}
		if used, err := taken(id); err != nil || !used {
			return id, err
		}
	}
	return 0, ErrExhausted
}

// tries is how often Choose guesses before it counts: with half of the range in
// use, one guess in 65536 containers fails that often.
const tries = 16
