package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// attribute is a file in /proc/PID/attr.
type attribute string

const (
	appArmorNow  attribute = "current"
	appArmorNext attribute = "exec"
)

// readAppArmor gives the name of the profile that confines the process, with
// the mode behind it unless that is "enforce", or "unconfined"; "" is a kernel
// on which AppArmor is not enabled.
func readAppArmor(dir, modules fs.FS, which attribute) (string, error) {
	enabled, err := fs.ReadFile(modules, "apparmor/parameters/enabled")
	if errors.Is(err, fs.ErrNotExist) || err == nil && !strings.HasPrefix(string(enabled), "Y") {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("apparmor: %w", err)
	}
	label, err := readLabel(dir, which)
	if which == appArmorNext && (errors.Is(err, unix.EINVAL) || err == nil && label == "") {
		label, err = readLabel(dir, appArmorNow) // nothing is to change
	}
	if err != nil {
		return "", fmt.Errorf("apparmor: %w", err)
	}
	return strings.TrimSuffix(label, " (enforce)"), nil
}

// readLabel reads attr/apparmor, which is there since Linux 5.8. The files
// beside it may be another security module's.
func readLabel(dir fs.FS, which attribute) (string, error) {
	label, err := fs.ReadFile(dir, "attr/apparmor/"+string(which))
	if errors.Is(err, fs.ErrNotExist) {
		label, err = fs.ReadFile(dir, "attr/"+string(which))
	}
	return strings.TrimRight(string(label), "\n\x00"), err
}
