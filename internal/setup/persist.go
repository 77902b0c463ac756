package setup

import (
	"fmt"
	"os"
	"path/filepath"
)

// persist has the image mounted at each boot, or says how to.
func (j *job) persist() error {
	if j.Image == "" {
		return nil // whoever mounted it has seen to that
	}
	line := fstabLine(j.Image, j.Mount)
	text, mode, path, err := readFstab(j.fstab)
	if err != nil {
		return err
	}
	after, added, err := addLine(text, line)
	switch {
	case err != nil && !j.Persist:
		j.say(Line{"fstab", Todo, fmt.Sprintf("%s, %v", path, err)})
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case !added:
		return j.already("fstab", path)
	case !j.Persist:
		j.say(Line{"fstab", Todo, "to mount it at each boot, add to " + path + " (or call setup with --persist): " + line})
		return nil
	}
	return j.make("fstab", item{Kind: kindFstab, Path: path, Text: line}, path, func(*item) error {
		return replaceFile(path, []byte(after), mode, func() { j.crash("fstab") })
	})
}

// readFstab follows a symbolic link, which is to stay one.
func readFstab(name string) (text string, mode os.FileMode, path string, err error) {
	path, err = filepath.EvalSymlinks(name)
	if err != nil {
		return "", 0, "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", 0, "", err
	}
	data, err := os.ReadFile(path)
	return string(data), info.Mode().Perm(), path, err
}

// unpersist takes back the line that setup added; removed is false where it is
// not there any more, or was changed.
func unpersist(it item) (removed bool, err error) {
	text, mode, path, err := readFstab(it.Path)
	if err != nil {
		return false, err
	}
	after, removed := removeLine(text, it.Text)
	if !removed {
		return false, nil
	}
	return true, replaceFile(path, []byte(after), mode, func() {})
}
