package confine

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// CloseOthers closes every descriptor that is none of keep, nor the standard
// ones, nor the Go runtime's own. An engine may have left one open in whoever
// started this process, and what it belongs to (a pipe that somebody reads to
// its end) would otherwise live as long as the container.
func CloseOthers(keep ...int) error {
	names, err := descriptors()
	for _, name := range names {
		fd, bad := strconv.Atoi(name)
		if bad != nil || fd <= unix.Stderr || slices.Contains(keep, fd) || isRuntimes(name) {
			continue
		}
		_ = unix.Close(fd) // the directory's own is among them, and closed by now
	}
	return errcode.Wrap(errcode.EnforcementFailed, "close inherited descriptors", err)
}

func descriptors() ([]string, error) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// isRuntimes knows the descriptors by which the Go runtime waits for others.
func isRuntimes(name string) bool {
	target, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%s", name))
	return strings.HasPrefix(target, "anon_inode:[event")
}
