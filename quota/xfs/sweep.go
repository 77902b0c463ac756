package xfs

import (
	"errors"
	"io/fs"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/quota"
)

// Swept is what a sweep found and did.
type Swept struct {
	Held    int // projects of containers that are there
	Retired int // projects of none, for which something counts still
	Freed   int // ids given back
	Removed int // directories and names removed that no container has
}

// Sweep gives back every id that nothing counts for any more, after it has taken
// back what belonged to containers that are gone: deleted by hand, killed half
// way, or before a reboot. Damaged entries are removed where nothing counts for
// their id, and kept, as retired, where something does.
func (m *Mount) Sweep() (s Swept, err error) {
	if err := m.openRegistry(false); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	err = m.locked(func() error {
		s, err = m.sweep()
		return err
	})
	return s, err
}

func (m *Mount) sweep() (s Swept, err error) {
	trees := map[string]bool{}
	err = m.each(idsDir, func(name string) error {
		id, err := parseID(name)
		if err != nil {
			s.Removed++
			return m.drop(idsDir, name)
		}
		return m.sweepOne(id, &s, trees)
	})
	if err != nil {
		return s, err
	}
	if err := m.sweepTrees(&s, trees); err != nil {
		return s, err
	}
	return s, errors.Join(m.sweepNames(&s, ownersDir), m.sweepNames(&s, retiredDir))
}

func (m *Mount) sweepOne(id quota.ProjectID, s *Swept, trees map[string]bool) error {
	r, err := m.record(id)
	if err != nil {
		r = Record{Project: id} // unreadable: nobody's, with whatever counts for it
	}
	if !r.Retired && r.ID != "" && r.alive() {
		s.Held++
		trees[r.Token] = true
		return nil
	}
	if !r.Retired {
		if err := m.retire(r); err != nil {
			return err
		}
	}
	if err := m.removeTree(r.Token); err != nil {
		return err
	}
	freed, err := m.free(id)
	if freed {
		s.Freed++
	} else {
		s.Retired++
	}
	return err
}

// sweepTrees removes directories whose record is gone.
func (m *Mount) sweepTrees(s *Swept, known map[string]bool) error {
	return m.each(treesDir, func(name string) error {
		if known[name] {
			return nil
		}
		s.Removed++
		return m.removeTree(name)
	})
}

// sweepNames drops names that lead to no record, or to one of another kind.
func (m *Mount) sweepNames(s *Swept, dir string) error {
	return m.each(dir, func(name string) error {
		text, err := m.read(dir, name)
		if err != nil {
			return err
		}
		id, err := parseID(text)
		if err == nil {
			var r Record
			r, err = m.record(id)
			if err == nil && (dir == retiredDir) == r.Retired && (dir == retiredDir || r.key() == name) {
				return nil
			}
		}
		s.Removed++
		return m.drop(dir, name)
	})
}

// each calls f for the names in one of the registry's directories, read before.
func (m *Mount) each(dir string, f func(name string) error) error {
	names, err := m.names(dir, -1)
	for _, name := range names {
		if err := f(name); err != nil {
			return err
		}
	}
	return err
}

// names reads one of the registry's directories, or with a limit as much as one
// call gives.
func (m *Mount) names(dir string, calls int) (names []string, err error) {
	fd, err := openBelow(m.sage, dir, openDir)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, 32<<10)
	for ; calls != 0; calls-- {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n == 0 {
			return names, err
		}
		for rest := buf[:n]; len(rest) > 0; {
			var e dirent
			if e, rest = nextDirent(rest); e.name != "." && e.name != ".." {
				names = append(names, e.name)
			}
		}
	}
	return names, nil
}

// How often a create looks for ids to give back, and at how many: at more, on
// the whole, than creates can take, so that they do not grow; and so that a
// create costs the same beside any number of them.
const (
	sweepEvery = 8
	sweepMost  = 32
)

// sweepSome gives back a few ids, from a random place on. Its failures are not
// the create's.
func (m *Mount) sweepSome() {
	if rand.Uint32N(sweepEvery) != 0 {
		return
	}
	names, _ := m.names(retiredDir, 1)
	if len(names) == 0 {
		return
	}
	start := rand.IntN(len(names))
	for i := range min(sweepMost, len(names)) {
		if id, err := parseID(names[(start+i)%len(names)]); err == nil {
			_, _ = m.free(id)
		}
	}
}
