package sampler

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// maxDepth is how many directories deep a place may be: each is a descriptor
	// while it is walked. What people make is a tenth of it.
	maxDepth = 128
	// baseEntries bounds what may be in a place before the container begins.
	baseEntries = 8 << 20
	// namesAtOnce bounds the memory that a directory takes, however large.
	namesAtOnce = 256
	blockSize   = 512 // of st_blocks, on every file system (stat(3type))
)

// errOver ends a walk that has seen enough.
var errOver = errors.New("over the limit")

// errTooDeep is for a tree that was made to be hard to measure.
var errTooDeep = fmt.Errorf("a tree of more than %d directories deep", maxDepth)

// Measure adds up what path takes on the disk before the container begins. It
// follows no symbolic link and stays on the mount.
func Measure(path string) (Usage, error) {
	w := walker{most: Usage{Bytes: 1<<63 - 1, Entries: baseEntries}}
	err := w.place(path)
	if errors.Is(err, errOver) {
		err = fmt.Errorf("saw more than %d files, want fewer, or a mount with a project quota", baseEntries)
	}
	return w.sum, err
}

// walker adds up, and stops with [errOver] above most.
type walker struct {
	sum, most Usage
	links     map[inode]bool // of files with several names, which count once
}

type inode struct{ dev, ino uint64 }

func (w *walker) place(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	if err := statx(fd, "", &st); err != nil {
		return &os.PathError{Op: "statx", Path: path, Err: err}
	}
	if err := w.add(&st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return err
	}
	return w.dir(fd, ".", 0)
}

func statx(fd int, name string, st *unix.Statx_t) error {
	return unix.Statx(fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, st)
}

func (w *walker) add(st *unix.Statx_t) error {
	w.sum.Entries++
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		id := inode{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}
		if w.links[id] {
			return w.over()
		}
		if w.links == nil {
			w.links = map[inode]bool{}
		}
		w.links[id] = true
	}
	w.sum.Bytes += int64(st.Blocks) * blockSize
	return w.over()
}

func (w *walker) over() error {
	if w.sum.Bytes > w.most.Bytes || w.sum.Entries > w.most.Entries {
		return errOver
	}
	return nil
}

// dir walks a directory by descriptor: names in it may be exchanged meanwhile.
func (w *walker) dir(parent int, name string, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return unlessGone(err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	for {
		names, err := f.Readdirnames(namesAtOnce)
		for _, n := range names {
			if err := w.entry(fd, n, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unlessGone(err)
		}
	}
}

func (w *walker) entry(dir int, name string, depth int) error {
	var st unix.Statx_t
	if err := statx(dir, name, &st); err != nil {
		return unlessGone(err)
	}
	// Not the device: a program can make a subvolume of btrfs, which has its own.
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return nil // not of this place
	}
	if err := w.add(&st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return err
	}
	return w.dir(dir, name, depth+1)
}

// unlessGone lets pass what comes of programs that work in the tree meanwhile.
func unlessGone(err error) error {
	for _, gone := range []unix.Errno{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ESTALE} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	return err
}

// usage adds up all places, and the files without a name that pids hold open.
// It stops with [errOver] above what the limits and the bases make.
func (p *Plan) usage(pids []int) (Usage, error) {
	w := walker{most: Usage{Bytes: p.Limits.DiskBytes, Entries: p.Limits.Entries}}
	for _, place := range p.Places {
		w.most.Bytes += place.Base.Bytes
		w.most.Entries += place.Base.Entries
	}
	base := Usage{Bytes: w.most.Bytes - p.Limits.DiskBytes, Entries: w.most.Entries - p.Limits.Entries}
	err := w.places(p.Places)
	if err == nil {
		err = w.unnamed(pids)
	}
	return Usage{Bytes: w.sum.Bytes - base.Bytes, Entries: w.sum.Entries - base.Entries}, err
}

func (w *walker) places(places []Place) error {
	for _, place := range places {
		if err := w.place(place.Path); err != nil {
			return err
		}
	}
	return nil
}

// unnamed adds the files that were removed while open: they take room until
// they are closed, and no walk of a directory sees them.
func (w *walker) unnamed(pids []int) error {
	seen := map[inode]bool{}
	for _, pid := range pids {
		dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // ended meanwhile
		}
		for _, e := range entries {
			if err := w.openFile(filepath.Join(dir, e.Name()), seen); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walker) openFile(path string, seen map[inode]bool) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Nlink > 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil //nolint:nilerr // closed meanwhile
	}
	id := inode{st.Dev, st.Ino}
	if seen[id] || inMemory(path) {
		return nil
	}
	seen[id] = true
	w.sum.Bytes += st.Blocks * blockSize
	w.sum.Entries++
	return w.over()
}

// inMemory is true for memfd_create(2) and what lies on a tmpfs, which count as
// memory.
func inMemory(path string) bool {
	var fs unix.Statfs_t
	err := unix.Statfs(path, &fs)
	return err != nil || fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.HUGETLBFS_MAGIC || fs.Type == unix.RAMFS_MAGIC
}

// room is how much is free on the file systems of the places, which is cheap to
// ask and says when a walk is due.
func room(places []Place) (free Usage) {
	for _, place := range places {
		var fs unix.Statfs_t
		if err := unix.Statfs(place.Path, &fs); err == nil {
			free.Bytes += int64(fs.Bfree) * fs.Bsize
			free.Entries += int64(fs.Ffree)
		}
	}
	return free
}
