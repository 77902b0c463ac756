package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// directory makes path, and above it what is missing.
func (j *job) directory(part, path string, mode fs.FileMode) error {
	there, err := isDirectory(path)
	if err != nil {
		return err
	}
	if there {
		return j.already(part, path)
	}
	if err := j.parents(part, path); err != nil {
		return err
	}
	return j.make(part, item{Kind: kindDirectory, Path: path}, path, func(*item) error { return makeDirectory(path, mode) })
}

func isDirectory(path string) (bool, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.IsDir():
		return false, fmt.Errorf("%s: saw a file, want a directory", path)
	}
	return true, nil
}

// parents makes the directories above path that are missing, each an item of
// its own, as each may have to stay for what others have put there since.
func (j *job) parents(part, path string) error {
	var missing []string
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		there, err := isDirectory(dir)
		if err != nil {
			return err
		}
		if there {
			break
		}
		missing = append([]string{dir}, missing...)
	}
	for _, dir := range missing {
		err := j.make(part, item{Kind: kindDirectory, Path: dir}, dir, func(*item) error { return makeDirectory(dir, 0o755) })
		if err != nil {
			return err
		}
	}
	return nil
}

// makeDirectory is content with a directory that is there: a setup that was
// killed had made it.
func makeDirectory(path string, mode fs.FileMode) error {
	err := os.Mkdir(path, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(path, mode) // whatever the umask
}
