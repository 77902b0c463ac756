package hardening

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maskedPaths are hidden in every container. Those of Docker and containerd
// come first, then those of Podman, then ours. libcontainer skips a path that
// is not there, and one costs two microseconds.
var maskedPaths = strings.Fields(`
	/proc/acpi /proc/asound /proc/interrupts /proc/kcore /proc/keys /proc/latency_stats /proc/timer_list
	/proc/timer_stats /proc/sched_debug /proc/scsi /sys/firmware /sys/devices/virtual/powercap

	/sys/fs/selinux /sys/dev/block

	/proc/kallsyms /proc/kmsg /proc/key-users
	/proc/kpagecount /proc/kpageflags /proc/kpagecgroup /proc/pagetypeinfo /proc/slabinfo /proc/vmallocinfo
	/proc/iomem /proc/ioports /proc/vmcore /proc/lock_stat /proc/lockdep /proc/lockdep_chains /proc/lockdep_stats
	/proc/dynamic_debug /proc/xen /proc/mtrr
	/sys/devices/virtual/dmi/id/product_serial /sys/devices/virtual/dmi/id/product_uuid
	/sys/devices/virtual/dmi/id/board_serial /sys/devices/virtual/dmi/id/chassis_serial`)

// readonlyPaths can be read, and steer the kernel when they are written: root
// needs no capability for some of their files. Docker's and containerd's come
// first, then ours; where all of /proc is read-only they say the same again. On
// cgroup v1 /sys/fs/cgroup is a tmpfs of libcontainer's, which it leaves
// writable.
var readonlyPaths = strings.Fields(`
	/proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger

	/sys/fs/cgroup /proc/driver /proc/pressure /proc/tty`)

// paths adds to what the bundle hides, so that an empty list of its own
// (systempaths=unconfined) hides no less than an absent one.
func (h *hardener) paths() error {
	l := h.spec.Linux
	masked := slices.Clone(maskedPaths)
	for cpu := range h.facts.CPUs {
		// Engines list these by CPU: they tell how much heat others make.
		masked = append(masked, "/sys/devices/system/cpu/cpu"+strconv.Itoa(cpu)+"/thermal_throttle")
	}
	for _, list := range []struct {
		field string
		have  *[]string
		want  []string
	}{
		{"linux.maskedPaths", &l.MaskedPaths, masked},
		{"linux.readonlyPaths", &l.ReadonlyPaths, readonlyPaths},
	} {
		if err := judgePaths(list.field, *list.have); err != nil {
			return err
		}
		if missing := without(list.want, *list.have); len(missing) > 0 {
			*list.have = append(*list.have, missing...)
			h.add(list.field, strings.Join(missing, " "), "in every container")
		}
	}
	return nil
}

// judgePaths keeps a path from naming an open descriptor of init, or the memory
// of a process, by way of /proc/self.
func judgePaths(field string, list []string) error {
	for i, name := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		if !path.IsAbs(name) || strings.ContainsRune(name, 0) || slices.Contains(strings.Split(name, "/"), "..") {
			return invalid(at, `saw %.80q, want an absolute path without ".."`, name)
		}
		parts := strings.Split(path.Clean(name), "/")
		if len(parts) > 2 && parts[1] == "proc" && ofProcess(parts[2]) {
			return denied(at, "saw %.80q, want nothing of a single process", name)
		}
	}
	return nil
}

func ofProcess(name string) bool {
	_, err := strconv.ParseUint(name, 10, 64)
	return err == nil || name == "self" || name == "thread-self"
}
