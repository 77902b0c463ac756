package xfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/quota"
)

// Request is one container that is to have a project.
type Request struct {
	Owner Owner
	// Token names the container's own directories, so that their paths are known
	// before its project is: see [NewToken] and [Mount.Dir].
	Token string
	Limit quota.Limit
	IDs   quota.Range
	Named quota.Named
	// Upper and Work are those of the overlay that the engine made, absolute; ""
	// for none. Everything in them is to count.
	Upper, Work string
	Dirs        []Dir
}

// Dir is a directory for a container to write in, made for it in its project.
type Dir struct {
	Name     string
	Mode     uint32
	UID, GID int
}

// NewToken is for one [Request]. It tells apart and is no secret, which would
// take a system call.
func NewToken() string { return fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()) }

// Dir is where the directory of a request is going to be.
func (m *Mount) Dir(token, name string) string {
	return filepath.Join(m.path, registryDir, treesDir, token, name)
}

// Assign gives a container a project: an id that nothing counts for, its limits
// set and read back before anything is put into it, then its directories and
// the engine's overlay. The owner's state directory must be there before, and
// stay until [Mount.Release]: a project whose owner has none is taken back by
// the next sweep. On an error everything is given back; tags on the engine's
// directories stay, for the next container of the same snapshot.
func (m *Mount) Assign(r Request) (Record, error) {
	record, err := m.assign(r)
	if err != nil {
		if record.Project != 0 {
			err = errors.Join(err, m.Release(record))
		}
		return Record{}, errcode.Wrap(errcode.EnforcementFailed, "assign a disk quota", err)
	}
	return record, nil
}

func (m *Mount) assign(r Request) (Record, error) {
	// First, so that the three others have numbers in a row, for one close.
	if err := m.openRegistry(true); err != nil {
		return Record{}, err
	}
	o, err := m.openOverlay(r.Upper, r.Work)
	if err != nil {
		return Record{}, err
	}
	a := &assignment{Mount: m, Request: r, overlay: o, tree: -1}
	defer a.close()
	if err := m.locked(a.claim); err != nil {
		return a.record, err
	}
	if o != nil && !a.record.Empty {
		if err := a.fill(); err != nil {
			return a.record, err
		}
	}
	if a.adopted {
		return a.record, nil
	}
	return a.record, makeDirs(a.tree, r.Dirs)
}

// assignment is one [Mount.Assign] while it goes on.
type assignment struct {
	*Mount
	Request
	record  Record
	overlay *overlay // nil without
	adopted bool     // the project, with the upper directory
	tree    int      // the container's own directories
}

func (a *assignment) close() {
	var fds []int
	if a.overlay != nil {
		fds = append(fds, a.overlay.upper, a.overlay.work)
	}
	if a.tree >= 0 {
		fds = append(fds, a.tree)
	}
	closeRuns(fds)
}

// claim is what happens under the lock: short, and of the same length however
// many containers there are. At its end the project has an inode, and with it
// everybody can see that the id is in use.
func (a *assignment) claim() error {
	record, err := a.adopt(a.Owner, a.overlay)
	a.adopted = record.Project != 0
	if err == nil && !a.adopted {
		record.Project, err = a.choose()
	}
	if err != nil {
		return err
	}
	record.Owner, record.Token, record.Limit, record.Retired = a.Owner, a.Token, a.Request.Limit, false
	a.record = record
	if err := a.settle(); err != nil || a.overlay == nil {
		return err
	}
	if record.Empty {
		return a.fits(record)
	}
	if err := a.tagTop(); err != nil || a.adopted {
		return err
	}
	return a.fillEmpty()
}

// settle writes down what was chosen and makes it true. The owner's entry comes
// first: by it the container's deletion finds what a killed create had taken.
func (a *assignment) settle() (err error) {
	if err := a.takeName(a.record); err != nil {
		return err
	}
	if err := a.write(a.record); err != nil {
		return err
	}
	if err := a.limit(a.record.Project, a.record.Limit); err != nil {
		return err
	}
	if a.tree, err = a.makeTree(a.Token); err != nil {
		return err
	}
	if a.adopted {
		return makeFull(a.tree, a.Dirs, a.record.Project)
	}
	return own(a.tree, a.record.Project)
}

// takeName gives the owner's name to the record. A former one is of a create
// that was killed, and whose state directory was removed by hand: there is one
// container of a name, and it is this one.
func (m *Mount) takeName(r Record) error {
	err := m.add(ownersDir, r.key(), idText(r.Project))
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	former, err := m.owned(r.Owner)
	if err == nil && former.Project != r.Project {
		err = errors.Join(m.retire(former), m.removeTree(former.Token))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return m.put(ownersDir, r.key(), idText(r.Project))
}

// choose finds a free id. It looks at everything once before it gives up.
func (a *assignment) choose() (quota.ProjectID, error) {
	a.sweepSome()
	id, err := quota.Choose(a.IDs, a.Named, rand.Uint32N, a.taken)
	if errors.Is(err, quota.ErrExhausted) {
		if _, err := a.sweep(); err != nil {
			return 0, err
		}
		id, err = quota.Choose(a.IDs, a.Named, rand.Uint32N, a.taken)
	}
	return id, errcode.Wrap(errcode.ResourceLimitsUnsupported, "choose a project id", err)
}

// adopt finds the project that the overlay's upper directory has from a former
// container of the same snapshot. It refuses one that sage did not give to this
// very directory.
func (m *Mount) adopt(mine Owner, o *overlay) (Record, error) {
	if o == nil {
		return Record{}, nil
	}
	project := o.attributes.Project
	if project == 0 {
		return Record{Upper: &o.id}, nil
	}
	record, err := m.record(quota.ProjectID(project))
	if err != nil || record.Upper == nil || *record.Upper != o.id {
		return Record{}, errForeign(project)
	}
	if !record.Retired && record.Owner != mine && record.alive() {
		return Record{}, errcode.Wrap(errcode.PermissionDenied, "adopt a project",
			fmt.Errorf("the root file system: saw one that container %.64q has, want one that no other container writes to", record.ID))
	}
	return record, m.removeTree(record.Token)
}

// taken asks the kernel whether an id is somebody's: held to limits, or with
// something that counts for it, an unlinked file that is still open among it. A
// record in the registry does not matter beside: what a container has counts
// before the lock is let go of, and a retired id keeps its limits. One that has
// neither was left by someone who was killed in between, and is written over.
func (m *Mount) taken(id quota.ProjectID) (bool, error) {
	u, err := m.usage(id)
	return u != quota.Usage{}, err
}

// tagTop tags the two directories themselves.
func (a *assignment) tagTop() error {
	project := uint32(a.record.Project)
	if change, err := retag(&a.overlay.attributes, project, sys.ProjectInherit); err != nil {
		return err
	} else if change {
		if err := sys.SetAttributes(a.overlay.upper, a.overlay.attributes); err != nil {
			return err
		}
	}
	return tag(a.overlay.work, project, sys.ProjectInherit)
}

// fillEmpty is for the usual case, and short enough for the lock: nothing is in
// the upper directory, and only directories are in the other. The upper one is
// tagged already, so that what comes into it from now on counts.
func (a *assignment) fillEmpty() error {
	t := newTagger(a.record.Project, a.record.Limit)
	t.walk.buf = make([]byte, 4096)
	errSome := errors.New("not empty")
	err := t.walk.list(a.overlay.upper, func(dirent) error { return errSome })
	if err == nil {
		err = t.walk.below(a.overlay.work)
	}
	if errors.Is(err, errSome) || err == nil && t.walk.visited.files+t.walk.visited.specials > 0 {
		return a.overlay.rewind()
	}
	if err != nil {
		return err
	}
	a.record.Empty = true
	return a.replace(idsDir+"/"+idText(a.record.Project), a.record.text())
}

// fill puts what is in the overlay's directories into the project. What was
// there already counts from then on, and may be too much. No lock: it may be
// long. Until its end the record does not say that the tree was empty, so that
// a killed one is made again.
func (a *assignment) fill() error {
	t := newTagger(a.record.Project, a.record.Limit)
	err := t.walk.below(a.overlay.upper)
	if err == nil {
		err = t.walk.below(a.overlay.work)
	}
	if errors.Is(err, errTooMany) {
		return errcode.Wrap(errcode.LimitExceeded, "put the root file system under its limit", err)
	}
	if err != nil {
		return err
	}
	if t.apart.inodes == 0 {
		return a.fits(a.record)
	}
	a.record.Limit = a.record.Limit.Less(t.apart.bytes, t.apart.inodes)
	return a.locked(func() error {
		if now, err := a.Mount.record(a.record.Project); err != nil || now.Token != a.record.Token {
			return errors.Join(fmt.Errorf("project %d: saw that it was taken away meanwhile, want it kept", a.record.Project), err)
		}
		if err := a.write(a.record); err != nil {
			return err
		}
		if err := a.limit(a.record.Project, a.record.Limit); err != nil {
			return err
		}
		return a.fits(a.record)
	})
}

func (m *Mount) fits(r Record) error {
	u, err := m.usage(r.Project)
	if err != nil {
		return err
	}
	return errcode.Wrap(errcode.LimitExceeded, "put the root file system under its limit", u.Fits(r.Limit))
}

// overlay is what an engine mounted, open: upper and work directory.
type overlay struct {
	upper, work int
	id          Inode
	attributes  sys.Attributes // of the upper directory
}

func (o *overlay) close() { closeRuns([]int{o.upper, o.work}) }

// rewind is for directories that were read.
func (o *overlay) rewind() error {
	_, err := unix.Seek(o.upper, 0, 0)
	if err == nil {
		_, err = unix.Seek(o.work, 0, 0)
	}
	return os.NewSyscallError("lseek", err)
}

func (m *Mount) openOverlay(upper, work string) (o *overlay, err error) {
	if upper == "" {
		return nil, nil
	}
	o = &overlay{}
	if o.upper, o.id.Number, err = m.openOn("upperdir", upper); err != nil {
		return nil, err
	}
	if o.work, _, err = m.openOn("workdir", work); err != nil {
		_ = unix.Close(o.upper)
		return nil, err
	}
	if o.id.Generation, err = sys.Generation(o.upper); err == nil {
		o.attributes, err = sys.GetAttributes(o.upper)
	}
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// openOn opens a directory that must lie on the file system of the quota. It
// may be reached by another mount of it, as where an engine's data root is a
// bind mount; the inode is the same.
func (m *Mount) openOn(field, path string) (fd int, inode uint64, err error) {
	if !filepath.IsAbs(path) {
		return -1, 0, fmt.Errorf("%s of the root file system's overlay: saw a path that is not absolute, want one that is (a shorter data root of the engine's)", field)
	}
	fd, err = unix.Open(path, openDir|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, 0, &os.PathError{Op: "open " + field, Path: path, Err: err}
	}
	var st unix.Stat_t
	err = os.NewSyscallError("fstat", unix.Fstat(fd, &st))
	if err == nil && st.Dev != m.dev {
		err = fmt.Errorf("%s: saw a directory on another device than linux_quota_mount, %s; want it there", field, m.path)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, 0, err
	}
	return fd, st.Ino, nil
}
