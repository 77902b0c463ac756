package xfs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/quota"
)

// The registry says which project is whose. It lies on the quota mount itself,
// since engines pass state directories of their own to each command and those
// are gone after a reboot, while what is tagged stays tagged:
//
//	.sage/                 root's, 0700; locked with flock(2) for every change
//	.sage/ids/ID           a record, see Record
//	.sage/owners/KEY       the ID that a container has
//	.sage/retired/ID       a hint: worth a look whether it has become free
//	.sage/trees/TOKEN/     directories that sage made for one container
//
// Entries are symlinks whose target is the text. Such an entry is made, or
// renamed over another, by one transaction of the file system: there is no
// half of a record after kill -9, nor after a loss of power, and none is behind
// the tags and limits that came after it, which are in the same log. A file
// would need fsync(2), some milliseconds, for that.
const (
	registryDir = ".sage"
	idsDir      = "ids"
	ownersDir   = "owners"
	retiredDir  = "retired"
	treesDir    = "trees"
)

// Registry is where the registry of a quota mount is.
func Registry(mount string) string { return filepath.Join(mount, registryDir) }

// maxText is XFS_SYMLINK_MAXLEN without the zero at the end.
const maxText = 1023

// Owner is a container: its id, and the directory that its runtime keeps the
// state directories in, absolute and resolved.
type Owner struct {
	ID   string `json:"id"`
	Root string `json:"root"`
}

// key is a name of fixed length for what may have any.
func (o Owner) key() string {
	sum := sha256.Sum256([]byte(o.Root + "\x00" + o.ID))
	return hex.EncodeToString(sum[:16])
}

// alive says whether the container's state directory is there. One that its
// runtime is about to make or to remove is there: see Mount.Assign.
func (o Owner) alive() bool {
	_, err := os.Lstat(o.Root + "/" + o.ID)
	return !errors.Is(err, os.ErrNotExist)
}

// Record is what the registry says of one project.
type Record struct {
	Project quota.ProjectID `json:"-"` // the entry's name
	Owner                   // of a retired one, the last
	// Token is of one assignment, and tells a container from a later one of the
	// same name.
	Token   string      `json:"token"`
	Limit   quota.Limit `json:"limit"`
	Retired bool        `json:"retired,omitempty"`
	// Upper is the overlay's upper directory, where the engine made it. By it
	// the next container of the same snapshot gets the project again.
	Upper *Inode `json:"upper,omitempty"`
	// Empty says that the upper directory was empty once it was tagged, so that
	// all that came into it since inherited the project.
	Empty bool `json:"empty,omitempty"`
}

// Inode identifies one of the file system, also against a later one of the
// same number.
type Inode struct {
	Number     uint64 `json:"ino"`
	Generation uint32 `json:"gen"`
}

// lock opens the registry, makes it if it is not there, and keeps it to us
// until unlock, or our end.
func (m *Mount) lock() (unlock func(), err error) {
	if err := m.openRegistry(true); err != nil {
		return nil, err
	}
	if err := retry(func() error { return unix.Flock(m.sage, unix.LOCK_EX) }); err != nil {
		return nil, os.NewSyscallError("flock", err)
	}
	return func() {
		_ = unix.Close(m.sage) // which unlocks, as nobody has the same open file
		m.sage = -1
	}, nil
}

func (m *Mount) locked(f func() error) error {
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return f()
}

func (m *Mount) openRegistry(create bool) error {
	if m.sage >= 0 {
		return nil
	}
	fd, err := openBelow(m.fd, registryDir, openDir)
	if create && errors.Is(err, unix.ENOENT) {
		if err := mkdir(m.fd, registryDir); err != nil {
			return err
		}
		fd, err = openBelow(m.fd, registryDir, openDir)
	}
	if err != nil {
		return err
	}
	if err := checkRegistry(fd); err != nil {
		_ = unix.Close(fd)
		return errcode.Wrap(errcode.ResourceLimitsUnsupported, "open "+m.path+"/"+registryDir, err)
	}
	m.sage = fd
	return nil
}

// checkRegistry: who can write there decides over the limits of all.
func checkRegistry(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if st.Uid != 0 || st.Mode&0o7777 != 0o700 {
		return fmt.Errorf("saw a directory of user %d with mode %04o, want root's with 0700; remove it or set them", st.Uid, st.Mode&0o7777)
	}
	return nil
}

func mkdir(dir int, name string) error {
	if err := unix.Mkdirat(dir, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "mkdirat", Path: name, Err: err}
	}
	return nil
}

// put writes an entry, over one that is there.
func (m *Mount) put(dir, name, text string) error {
	err := m.add(dir, name, text)
	if errors.Is(err, unix.EEXIST) {
		return m.replace(dir+"/"+name, text)
	}
	return err
}

// add writes an entry, and gives fs.ErrExist where there is one.
func (m *Mount) add(dir, name, text string) error {
	if len(text) > maxText {
		return fmt.Errorf("registry entry: saw %d bytes, want %d at most: the state root or the container's id is too long", len(text), maxText)
	}
	at := dir + "/" + name
	err := unix.Symlinkat(text, m.sage, at)
	if errors.Is(err, unix.ENOENT) {
		if err := m.makeFolders(); err != nil {
			return err
		}
		err = unix.Symlinkat(text, m.sage, at)
	}
	if err != nil {
		return &os.PathError{Op: "symlinkat", Path: at, Err: err}
	}
	return nil
}

// replace needs no name of its own for the new entry: who writes has the lock.
func (m *Mount) replace(at, text string) error {
	const tmp = "new"
	err := unix.Symlinkat(text, m.sage, tmp)
	if errors.Is(err, unix.EEXIST) { // of one who was killed
		_ = unix.Unlinkat(m.sage, tmp, 0)
		err = unix.Symlinkat(text, m.sage, tmp)
	}
	if err != nil {
		return &os.PathError{Op: "symlinkat", Path: tmp, Err: err}
	}
	if err := unix.Renameat(m.sage, tmp, m.sage, at); err != nil {
		return &os.PathError{Op: "renameat", Path: at, Err: err}
	}
	return nil
}

func (m *Mount) makeFolders() error {
	for _, dir := range []string{idsDir, ownersDir, retiredDir, treesDir} {
		if err := mkdir(m.sage, dir); err != nil {
			return err
		}
	}
	return nil
}

// read gives fs.ErrNotExist for an entry that is not there.
func (m *Mount) read(dir, name string) (string, error) {
	buf := make([]byte, maxText+1)
	n, err := unix.Readlinkat(m.sage, dir+"/"+name, buf)
	if err != nil {
		return "", &os.PathError{Op: "readlinkat", Path: dir + "/" + name, Err: err}
	}
	return string(buf[:n]), nil
}

func (m *Mount) drop(dir, name string) error {
	err := unix.Unlinkat(m.sage, dir+"/"+name, 0)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "unlinkat", Path: dir + "/" + name, Err: err}
	}
	return nil
}

// record reads that of one project.
func (m *Mount) record(id quota.ProjectID) (Record, error) {
	text, err := m.read(idsDir, idText(id))
	if err != nil {
		return Record{}, err
	}
	r := Record{Project: id}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Record{}, errcode.Wrap(errcode.StateInvalid, fmt.Sprintf("read the record of project %d", id), err)
	}
	return r, nil
}

func (m *Mount) write(r Record) error { return m.put(idsDir, idText(r.Project), r.text()) }

func (r Record) text() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // no field can fail to marshal: strings and numbers
	}
	return string(text)
}

// owned finds the project that a container has, fs.ErrNotExist for none. A name
// in owners/ whose record is another's was left by someone who was killed.
func (m *Mount) owned(o Owner) (Record, error) {
	text, err := m.read(ownersDir, o.key())
	if err != nil {
		return Record{}, err
	}
	id, err := parseID(text)
	if err != nil {
		return Record{}, err
	}
	r, err := m.record(id)
	if err == nil && (r.Owner != o || r.Retired) {
		err = &os.PathError{Op: "find", Path: ownersDir, Err: unix.ENOENT}
	}
	return r, err
}

func idText(id quota.ProjectID) string { return strconv.FormatUint(uint64(id), 10) }

func parseID(text string) (quota.ProjectID, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, errcode.Wrap(errcode.StateInvalid, "read the quota registry", errors.New("saw no project id, want a number"))
	}
	return quota.ProjectID(n), nil
}
