package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
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
		if !nextShown() {
			return appArmorUnshown, nil
		}
		label, err = readLabel(dir, appArmorNow) // nothing is to change
	}
	if err != nil {
		return "", fmt.Errorf("apparmor: %w", err)
	}
	return strings.TrimSuffix(label, " (enforce)"), nil
}

// appArmorUnshown is what [CollectWaiting] gives on a kernel where a process
// alone sees the profile that it has chosen for its next program: Debian's 6.1
// gives whoever reads the file their own. libcontainer's init, which chose it,
// ends where it could not; attest shows what the program runs under.
const appArmorUnshown = "not shown by this kernel"

// nextShown tries it with a thread that chooses what it is under already.
var nextShown = sync.OnceValue(func() bool {
	shown := true // where the trial does not work, what should be there is asked for
	sys.OnDyingThread(func() {
		const file = "attr/apparmor/exec"
		self := os.DirFS("/proc/thread-self")
		now, err := readLabel(self, appArmorNow)
		if err != nil {
			return
		}
		name, _, _ := strings.Cut(now, " (")
		if os.WriteFile("/proc/thread-self/"+file, []byte("exec "+name), 0) != nil {
			return
		}
		thread := fmt.Sprintf("/proc/self/task/%d", unix.Gettid())
		seen := make(chan string)
		go func() {
			label, _ := readLabel(os.DirFS(thread), appArmorNext)
			seen <- label
		}()
		shown = <-seen != ""
	})
	return shown
})

// readLabel reads attr/apparmor, which is there since Linux 5.8. The files
// beside it may be another security module's.
func readLabel(dir fs.FS, which attribute) (string, error) {
	label, err := fs.ReadFile(dir, "attr/apparmor/"+string(which))
	if errors.Is(err, fs.ErrNotExist) {
		label, err = fs.ReadFile(dir, "attr/"+string(which))
	}
	return strings.TrimRight(string(label), "\n\x00"), err
}
