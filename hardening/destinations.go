package hardening

import (
	"slices"
	"strings"
)

// systemDirs are where the programs and libraries of an image are: a writable
// mount over one of them would be a file system that nobody looked at, run as
// if it were the image (S-111). Below them, and read-only, mounts are common.
var systemDirs = strings.Fields("/bin /boot /etc /lib /lib32 /lib64 /libx32 /sbin /usr /usr/bin /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/sbin")

// devPlaces are what may be mounted below /dev, which is otherwise the
// runtime's own: a file that takes the place of a device misleads programs.
var devPlaces = []string{"/dev/shm", "/dev/mqueue", "/dev/termination-log"}

// destination judges where a mount goes, as it will be mounted: a bind, or a
// tmpfs. The kernel's file systems have their own places, see [fresh].
func (h *hardener) destination(m *mount, writable bool) error {
	field, to := m.field+".destination", m.facts.Destination
	switch {
	case to == "/":
		return denied(field, "saw %q, which is the root of the container", m.asked)
	case within(to, "/proc"), within(to, "/sys"):
		return denied(field, "saw %q, want nothing in /proc or /sys but the kernel's own file systems there", to)
	case within(to, "/dev") && !slices.Contains(devPlaces, to):
		return denied(field, "saw %q, want nothing in /dev but %s", to, strings.Join(devPlaces, ", "))
	case strings.HasPrefix(to, "/run/sage"):
		return denied(field, "saw %q, which is for sage itself", to)
	case writable && slices.Contains(systemDirs, to):
		return denied(field, "saw a writable mount at %q, want it below that, or read-only", to)
	}
	return nil
}
