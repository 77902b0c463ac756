package sampler

import (
	"errors"
	"io/fs"
	"os"
)

// claimName is the file that says which process watches the container.
const claimName = "sage-watcher.json"

// Claim writes down that this process watches the container whose state
// directory is dir. It is called once it does.
func Claim(dir string) error {
	self, err := Identify(os.Getpid())
	if err != nil {
		return err
	}
	return writeJSON(dir, claimName, self)
}

// Claimed says whether a process that is there watches the container.
func Claimed(dir string) (bool, error) {
	var p Process
	err := readJSON(dir, claimName, &p)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && p.Alive(), err
}
