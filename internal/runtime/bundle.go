package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// loadBundle changes into the bundle, as paths in it are relative to it.
func (l *Launch) loadBundle() (*specs.Spec, error) {
	if l.Bundle != "" {
		if err := os.Chdir(l.Bundle); err != nil {
			return nil, err
		}
	}
	s, err := readConfig()
	if err != nil {
		return nil, err
	}
	return s, errcode.Wrap(errcode.BundleInvalid, "open bundle", checkRootDir(s.Root))
}

// readConfig reads the config.json of the current directory.
func readConfig() (*specs.Spec, error) {
	f, err := os.Open(spec.ConfigName)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("JSON specification file %s not found", spec.ConfigName)
	}
	if err != nil {
		return nil, errcode.Wrap(errcode.BundleInvalid, "open bundle", err)
	}
	defer f.Close()
	return spec.ParseBundle(f)
}

// checkRootDir leaves all but one case to libcontainer: with a file for a root,
// init cannot be started at all, and the error names neither.
func checkRootDir(root *specs.Root) error {
	if root == nil {
		return nil
	}
	if info, err := os.Stat(root.Path); err == nil && !info.IsDir() {
		return &os.PathError{Op: "root.path:", Path: root.Path, Err: unix.ENOTDIR}
	}
	return nil
}
