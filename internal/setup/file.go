package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// tempName is where a file lies until it is whole: beside its place, under a
// name that says whose it is.
func tempName(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".sage-setup")
}

// writeNew makes a file whole or not at all, and never in the place of another.
func writeNew(path, text string) error {
	tmp := tempName(path)
	if err := writeTemp(tmp, []byte(text), 0o644); err != nil {
		return err
	}
	return errors.Join(publish(tmp, path), removeAll(tmp))
}

// publish gives a whole file its name, unless there is something of that name.
func publish(tmp, path string) error {
	err := unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	if err != nil {
		return &os.PathError{Op: "renameat2(RENAME_NOREPLACE)", Path: path, Err: err}
	}
	return syncDir(filepath.Dir(path))
}

// replaceFile puts data in the place of the file at path, of which a reader
// sees all the old or all the new.
func replaceFile(path string, data []byte, mode fs.FileMode, before func()) error {
	tmp := tempName(path)
	if err := removeAll(tmp); err != nil { // of a setup that was killed
		return err
	}
	if err := writeTemp(tmp, data, mode); err != nil {
		return err
	}
	before()
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func writeTemp(tmp string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode) // whatever the umask
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// removeAll removes files that may be there or not.
func removeAll(paths ...string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func asRoot() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("run as user %d, want root", uid)
	}
	return nil
}

// trustPath refuses a path that someone other than root could put something
// else in the place of: what lies there is mounted, or believed, by root.
func trustPath(path string) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	for {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return &os.PathError{Op: "stat", Path: path, Err: err}
		}
		// In a directory with the sticky bit others cannot rename what is root's.
		open := st.Mode&0o022 != 0 && (st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&unix.S_ISVTX == 0)
		if st.Uid != 0 || open {
			return fmt.Errorf("%s: saw owner %d and mode %04o, want root's, and writable by nobody else", path, st.Uid, st.Mode&0o7777)
		}
		if path == "/" {
			return nil
		}
		path = filepath.Dir(path)
	}
}

func inode(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return st.Ino, nil
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
