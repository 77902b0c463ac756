package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// written are files of the machine that steer it, opened for writing: to open
// is enough to know, and to write would do harm.
var written = []string{
	"/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches",
	"/proc/sys/kernel/hostname", "/proc/sys/kernel/yama", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/net/ipv4/ip_forward",
	"/proc/sys/user/max_user_namespaces", "/proc/irq/default_smp_affinity",
	"/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/profiling", "/sys/power/state",
	"/sys/bus/pci/rescan", "/sys/block/loop0/queue/scheduler", "/sys/module/loop/parameters/max_part",
	"/dev/mem", "/dev/port", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/loop0", "/dev/loop-control",
	"/dev/vda", "/dev/btrfs-control", "/dev/vhost-net", "/dev/userfaultfd", "/dev/autofs",
	"/dev/cpu_dma_latency", "/dev/vsock", "/dev/tty1", "/dev/hwrng",
}

// looked are files and folders that tell of the machine.
var looked = []string{
	"/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/acpi",
	"/proc/asound", "/proc/interrupts", "/proc/kmsg", "/proc/vmallocinfo", "/proc/kpageflags", "/proc/kpagecount", "/proc/slabinfo",
	"/sys/firmware", "/sys/devices/virtual/powercap", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/fs/bpf",
	"/sys/fs/pstore",
}

func files() []attempt {
	list := []attempt{
		{"make a file in the root", func() error { return unix.Mkdir("/made-"+unused(), 0o755) }},
		{"make a file in /etc", func() error { return openFor("/etc/made", unix.O_WRONLY|unix.O_CREAT) }},
		{"make a file in /dev", func() error { return openFor("/dev/made", unix.O_WRONLY|unix.O_CREAT) }},
		{"make a file in /sys", func() error { return openFor("/sys/made", unix.O_WRONLY|unix.O_CREAT) }},
		{"change /proc/bus", func() error { return os.Chmod("/proc/bus", 0o555) }},
		{"change /proc/fs", func() error { return os.Chmod("/proc/fs", 0o555) }},
		{"make a cgroup", makeCgroup},
		{"move to the upper cgroup", moveUp},
		{"write itself", func() error { return openFor("/proc/self/exe", unix.O_WRONLY) }},
		{"write init's program", func() error { return openFor("/proc/1/exe", unix.O_WRONLY) }},
		{"write init's memory", func() error { return openFor("/proc/1/mem", unix.O_RDWR) }},
		{"leave by chroot", leave},
		{"less likely to be killed", func() error { return os.WriteFile("/proc/self/oom_score_adj", []byte("-900"), 0) }},
		{"allowed write /tmp", func() error { return openFor("/tmp/written", unix.O_WRONLY|unix.O_CREAT) }},
		{"allowed write /dev/null", func() error { return openFor("/dev/null", unix.O_RDWR) }},
		{"allowed read /dev/urandom", func() error { return look("/dev/urandom") }},
		{"allowed read /proc/self/status", func() error { return look("/proc/self/status") }},
		{"allowed terminal", func() error { return openFor("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY) }},
	}
	for _, name := range written {
		list = append(list, attempt{"write " + name, func() error { return openFor(name, unix.O_WRONLY) }})
	}
	for _, name := range looked {
		list = append(list, attempt{"read " + name, func() error { return look(name) }})
	}
	return list
}

// openFor opens and closes.
func openFor(name string, flags int) error {
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// look reads a byte or the first name in a folder. A mask is there and empty,
// which counts as ENODATA.
func look(name string) error {
	f, err := os.OpenFile(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		_, err = f.Readdirnames(1)
		return noData(err)
	}
	_, err = f.Read(make([]byte, 1))
	return noData(err)
}

func noData(err error) error {
	if errors.Is(err, io.EOF) {
		return unix.ENODATA
	}
	return err
}

// cgroups are the places where a container sees its own, in either version.
func cgroups() []string {
	dirs, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	return append(dirs, "/sys/fs/cgroup/cgroup.procs")
}

func makeCgroup() error {
	for _, name := range cgroups() {
		if err := unix.Mkdir(filepath.Join(filepath.Dir(name), "made"), 0o755); err == nil || !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return unix.ENOENT
}

// moveUp writes nothing that moves: 0 is the writer, in the group it sees as
// the root already.
func moveUp() error {
	for _, name := range cgroups() {
		if err := openFor(name, unix.O_WRONLY); err == nil || !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return unix.ENOENT
}

// leave is how root leaves a chroot: it sees this program again, whose name the
// new root does not have.
func leave() error {
	dir, err := os.Open("/")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Chroot("/tmp"); err != nil {
		return err
	}
	if err := dir.Chdir(); err != nil {
		return err
	}
	return unix.Access(strings.Repeat("../", 20)+"victim", unix.F_OK)
}
