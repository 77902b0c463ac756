package runtime

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// bundle is a config.json, read and as it was.
type bundle struct {
	spec *specs.Spec
	raw  []byte
}

// loadBundle changes into the bundle, as paths in it are relative to it.
func (l *Launch) loadBundle() (*bundle, error) {
	if l.Bundle != "" {
		if err := os.Chdir(l.Bundle); err != nil {
			return nil, err
		}
	}
	b, err := readConfig()
	if err != nil {
		return nil, err
	}
	return b, errcode.Wrap(errcode.BundleInvalid, "open bundle", checkRootDir(b.spec.Root))
}

// readConfig reads the config.json of the current directory.
func readConfig() (*bundle, error) {
	f, err := os.Open(spec.ConfigName)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("JSON specification file %s not found", spec.ConfigName)
	}
	if err != nil {
		return nil, errcode.Wrap(errcode.BundleInvalid, "open bundle", err)
	}
	defer f.Close()
	var raw bytes.Buffer
	s, err := spec.ParseBundle(io.TeeReader(f, &raw))
	if err != nil {
		return nil, err
	}
	return &bundle{s, raw.Bytes()}, nil
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
