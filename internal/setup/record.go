package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// kind is what an item is, and so how it is undone.
type kind string

const (
	kindDirectory   kind = "directory"
	kindImage       kind = "image"
	kindMount       kind = "mount"
	kindFstab       kind = "fstab line"
	kindCgroup      kind = "cgroup"
	kindControllers kind = "controllers"
	kindFile        kind = "file"
)

// item is one thing that setup made, or was about to make.
type item struct {
	Kind kind   `json:"kind"`
	Path string `json:"path"`
	Done bool   `json:"done"`
	Ino  uint64 `json:"ino,omitempty"`  // of an image, so that another file in its place is left alone
	Text string `json:"text,omitempty"` // line of fstab, digest of a file, names of controllers, image of a mount

	fresh bool // made by this run
}

const recordVersion = 1

// record is the file that says what setup made on this host, in order:
//
//	begin(item, done: false) → it is made → save(item, done: true)
//
// Each arrow can be cut by a kill: what is not done may be there or not.
type record struct {
	Version int    `json:"version"`
	Items   []item `json:"items"`

	path  string
	dry   bool
	crash func(string)
}

func loadRecord(path string) (*record, error) {
	r := &record{Version: recordVersion, path: path}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = trustPath(path)
	}
	if err == nil {
		err = json.Unmarshal(data, r)
	}
	if err == nil && r.Version != recordVersion {
		err = fmt.Errorf("version: saw %d, want %d; take back with the sage-runtime that wrote it", r.Version, recordVersion)
	}
	return r, errcode.Wrap(errcode.StateInvalid, "read "+path, err)
}

// begin adds it as not done. What the record has of the same thing is of an
// earlier boot, and is not there any more.
func (r *record) begin(it item) error {
	r.Items = slices.DeleteFunc(r.Items, func(old item) bool { return old.Kind == it.Kind && old.Path == it.Path })
	it.fresh = true
	r.Items = append(r.Items, it)
	return r.save()
}

func (r *record) last() *item { return &r.Items[len(r.Items)-1] }

// drop removes the last item, which is undone.
func (r *record) drop() error {
	r.Items = r.Items[:len(r.Items)-1]
	return r.save()
}

// save is atomic, and on the disk when it returns. An empty record is no file.
func (r *record) save() error {
	if r.dry {
		return nil
	}
	if len(r.Items) == 0 {
		return removeAll(tempName(r.path), r.path)
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(r.path, append(data, '\n'), 0o600, func() { r.crash("record " + filepath.Base(r.path)) })
}

// lock keeps two setups apart. It is taken on the directory that the record
// lies in, which leaves no file behind, and ends with the process.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := trustPath(dir); err != nil {
		f.Close()
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w; is another setup at work?", dir, err)
	}
	return func() { f.Close() }, nil
}
