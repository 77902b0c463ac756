package runtime

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// Policy reads the host's configuration. Where there is no file, and none was
// asked for, the built-in profiles hold.
func (h *Host) Policy() (*spec.Host, error) {
	config, err := h.readPolicy()
	if errors.Is(err, fs.ErrNotExist) && !h.ConfigAsked {
		return spec.BuiltinHost(), nil
	}
	return config, errcode.Wrap(errcode.ConfigInvalid, "read "+h.Config, err)
}

func (h *Host) readPolicy() (*spec.Host, error) {
	f, err := os.Open(h.Config)
	if err != nil {
		return nil, errors.Unwrap(err) // the path is said already
	}
	defer f.Close()
	if err := trustFile(f); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxPolicy+1))
	if err == nil && len(data) > maxPolicy {
		err = fmt.Errorf("the file is larger than %d bytes", maxPolicy)
	}
	if err != nil {
		return nil, err
	}
	return spec.ParseHost(data)
}

// maxPolicy is far above what a person writes.
const maxPolicy = 1 << 20

// trustFile refuses a file that someone other than root or the caller could
// have written, or could put another in the place of.
func trustFile(f *os.File) error {
	if err := trust(f.Name(), unix.S_IFREG); err != nil {
		return err
	}
	path, err := filepath.EvalSymlinks(f.Name())
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return err
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if err := trust(dir, unix.S_IFDIR); err != nil {
			return err
		}
		if dir == "/" {
			return nil
		}
	}
}

func trust(path string, kind uint32) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	// In a directory with the sticky bit others cannot rename what is root's.
	open := st.Mode&0o022 != 0 && (kind != unix.S_IFDIR || st.Mode&unix.S_ISVTX == 0)
	switch {
	case st.Mode&unix.S_IFMT != kind:
		return fmt.Errorf("%s: not a regular file", path)
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, want root: whoever can write it decides what containers may do", path, st.Uid)
	case open:
		return fmt.Errorf("%s has mode %04o, which lets others write; want no write for group and others (chmod go-w)", path, st.Mode&0o7777)
	}
	return nil
}
