package xfs

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/quota"
)

// Find gives the project that a container has. It returns fs.ErrNotExist for a
// container that has none.
func (m *Mount) Find(o Owner) (Record, error) {
	if err := m.openRegistry(false); err != nil {
		return Record{}, err
	}
	return m.owned(o)
}

// Release takes the project of r back and removes the directories that were
// made for the container. The id is free again once nothing counts for it: at
// once, or, where the engine keeps the snapshot or a file is still open, after
// a later sweep; until then its limits stay. A record that is no more the
// container's is left alone.
func (m *Mount) Release(r Record) error {
	err := m.locked(func() error {
		now, err := m.record(r.Project)
		if errors.Is(err, fs.ErrNotExist) || err == nil && now.Token != r.Token {
			return nil
		}
		return errors.Join(err, m.retire(r))
	})
	if err != nil {
		return err
	}
	// Not under the lock: it takes as long as the container was busy.
	if err := m.openRegistry(false); err != nil {
		return err
	}
	if err := m.removeTree(r.Token); err != nil {
		return err
	}
	return m.locked(func() error {
		_, err := m.free(r.Project)
		return err
	})
}

// A retired project that holds an engine's overlay has a little more than its
// container had: an overlay whose work directory cannot be made anew for want of
// room is mounted read-only by the kernel (ovl_make_workdir), so that an engine
// could never again start a container that has filled its disk. Nothing of the
// container runs meanwhile, and whoever adopts the project sets its limits back.
const (
	retiredBytes  = 1 << 20
	retiredInodes = 16
)

// retire marks the record and lets the owner's name go. Under the lock.
func (m *Mount) retire(r Record) error {
	r.Retired = true
	if err := m.write(r); err != nil {
		return err
	}
	if l := r.Limit; r.Upper != nil && l.Bytes > 0 && l.Inodes > 0 {
		if err := sys.SetProjectLimits(m.fd, uint32(r.Project), (l.Bytes+retiredBytes)/quota.BlockSize, l.Inodes+retiredInodes); err != nil {
			return err
		}
	}
	if err := m.put(retiredDir, idText(r.Project), idText(r.Project)); err != nil {
		return err
	}
	if text, err := m.read(ownersDir, r.key()); err != nil || text != idText(r.Project) {
		return nil //nolint:nilerr // gone, or that of a later container of the name
	}
	return m.drop(ownersDir, r.key())
}

// free gives a retired id back if nothing counts for it. Its limits go first:
// whoever finds the id unused must find it without. Under the lock.
func (m *Mount) free(id quota.ProjectID) (bool, error) {
	r, err := m.record(id)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !r.Retired {
		return false, m.drop(retiredDir, idText(id)) // the hint was wrong
	}
	if err != nil {
		return false, err
	}
	u, err := m.usage(id)
	if err != nil || !u.Empty() {
		return false, err
	}
	if err := sys.SetProjectLimits(m.fd, uint32(id), 0, 0); err != nil {
		return false, err
	}
	return true, errors.Join(m.drop(idsDir, idText(id)), m.drop(retiredDir, idText(id)))
}

// CheckOwned is for a look from outside: that the container still has the
// project, and the project its limit.
func (m *Mount) CheckOwned(o Owner) (Record, error) {
	r, err := m.Find(o)
	if err != nil {
		return r, errcode.Wrap(errcode.EnforcementFailed, "find the project", fmt.Errorf("the container's record is not in the registry of %s: %w", m.path, err))
	}
	return r, m.ReadBack(r.Project, r.Limit)
}
