package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

// cgroupMount is where every distribution mounts cgroups: version 2 itself, or
// a tmpfs with a mount for each hierarchy.
const cgroupMount = "/sys/fs/cgroup"

// cgroupVersion: a controller belongs to one hierarchy at a time, so that v2
// beside v1 has none of those that limits need.
func cgroupVersion(Host) (string, error) {
	mount, err := unifiedMount()
	if err != nil {
		return "", fmt.Errorf("cgroup v1 alone: %w", err)
	}
	if mount != cgroupMount {
		return "", fmt.Errorf("cgroup v1, with v2 beside it at %s: the controllers are with v1", mount)
	}
	return "v2 at " + mount, nil
}

func unifiedMount() (string, error) {
	if unifiedAlone() {
		return cgroupMount, nil
	}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	return findUnified(string(data))
}

// unifiedAlone is what libcontainer goes by too, and saves a look at all mounts,
// of which a host of many containers has thousands.
func unifiedAlone() bool {
	var st unix.Statfs_t
	return unix.Statfs(cgroupMount, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}

// findUnified reads proc_pid_mountinfo(5). A mount that was covered by another
// comes first, so the last one is the one that counts.
func findUnified(mountinfo string) (string, error) {
	mount := ""
	for line := range strings.Lines(mountinfo) {
		place, kind, _ := strings.Cut(line, " - ")
		fields := strings.Fields(place)
		if len(fields) > 4 && strings.HasPrefix(kind, "cgroup2 ") && within(fields[4], cgroupMount) {
			mount = fields[4]
		}
	}
	if mount == "" {
		return "", errors.New("no cgroup2 file system is mounted at or below " + cgroupMount)
	}
	return mount, nil
}

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// controller looks where the cgroups will be, or, before somebody has made that
// directory, above it.
func controller(name string) func(Host) (string, error) {
	return func(host Host) (string, error) {
		// Beside v1 it is v1 that limits, whatever v2 has.
		if seen, err := cgroupVersion(host); err != nil {
			return seen, err
		}
		return delegated(existing(host.CgroupRoot, cgroupMount), name)
	}
}

// delegated says whether a cgroup below dir can have a controller. libcontainer
// enables it there if nobody has; only in the root of the whole hierarchy does
// the kernel let it where there are processes.
func delegated(dir, name string) (string, error) {
	have, err := words(dir, "cgroup.controllers")
	if err != nil {
		return "", err
	}
	if !slices.Contains(have, name) {
		return "", fmt.Errorf("%s has the controllers %q, without %s", dir, have, name)
	}
	below, err := words(dir, "cgroup.subtree_control")
	if err != nil || slices.Contains(below, name) {
		return "enabled below " + dir, err
	}
	pids, err := words(dir, "cgroup.procs")
	if err == nil && len(pids) > 0 && !isHierarchyRoot(dir) {
		err = fmt.Errorf("%s enables the controllers %q, without %s, and can enable no other while there are processes in it", dir, below, name)
	}
	return "in " + dir, err
}

// isHierarchyRoot goes by a file that the root of the machine's hierarchy alone
// does not have, as the root of a cgroup namespace does.
func isHierarchyRoot(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.type"))
	return errors.Is(err, fs.ErrNotExist)
}

func words(dir, file string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(data)), err
}

// existing is the deepest directory there is on the way from mount to path.
func existing(path, mount string) string {
	for path = filepath.Clean(path); within(path, mount); path = filepath.Dir(path) {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
	}
	return mount
}

// swap: without this file memory.max is no limit, as the rest goes to swap.
func swap(host Host) (seen string, err error) {
	err = withCgroup(host, func(dir string) error {
		_, err := os.Stat(filepath.Join(dir, "memory.swap.max"))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("a cgroup below %s has no memory.swap.max", filepath.Dir(dir))
		}
		return err
	})
	return "memory.swap.max is there", err
}

// swapFile is what can be seen of that without making a cgroup. The root has no
// limits, so that below it no more can be told than that the kernel knows swap.
func swapFile(host Host) (string, error) {
	if seen, err := cgroupVersion(host); err != nil {
		return seen, err
	}
	file := filepath.Join(existing(host.CgroupRoot, cgroupMount), "memory.swap.max")
	if isHierarchyRoot(filepath.Dir(file)) {
		file = "/proc/swaps"
	}
	_, err := os.Stat(file)
	return file + " is there", err
}

// cloneIntoCgroup is what closes the gap in which a process is limited by
// nothing, or can have children outside.
func cloneIntoCgroup(host Host) (string, error) {
	err := inCgroup(host, func(pid int, dir string) error {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && !strings.Contains(string(data), "/"+filepath.Base(dir)+"\n") {
			err = errors.New("clone3(CLONE_INTO_CGROUP): the process is not in the cgroup it was made for")
		}
		return err
	})
	return "clone3 puts a process into a cgroup as it makes it", err
}

// cgroupKill ends even a process that forks faster than it can be killed.
func cgroupKill(host Host) (string, error) {
	err := inCgroup(host, func(pid int, dir string) error {
		if err := writeFile(filepath.Join(dir, "cgroup.kill"), "1"); err != nil {
			return err
		}
		return await("cgroup.kill ends a process", func() bool {
			_, err := readStatus(os.DirFS("/proc/" + strconv.Itoa(pid)))
			return errors.Is(err, ErrEnded)
		})
	})
	return "it ends the processes of a cgroup", err
}

// alwaysPass is a BPF program that lets every packet through: r0 = 1; exit.
var alwaysPass = []byte{0xb7, 0, 0, 0, 1, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0}

// cgroupBPF attaches to a cgroup of its own, where nobody's packets pass.
func cgroupBPF(host Host) (string, error) {
	program, err := sys.LoadCgroupSKB(alwaysPass)
	if err != nil {
		return "", err
	}
	defer unix.Close(program)
	err = withCgroup(host, func(dir string) error {
		return withDir(dir, func(fd int) error { return sys.AttachEgress(fd, program) })
	})
	return "a program can be attached to a cgroup", err
}

// inCgroup makes a cgroup with a process in it.
func inCgroup(host Host, use func(pid int, dir string) error) error {
	return withCgroup(host, func(dir string) error {
		return withDir(dir, func(fd int) error {
			s := standIn{cgroup: fd, intoGroup: true}
			return s.with(func(pid int) error { return use(pid, dir) })
		})
	})
}

// withDir is by descriptor, as both calls that name a cgroup want it.
func withDir(path string, use func(fd int) error) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	return use(fd)
}

// groupName begins the names of the cgroups made here; the number of the
// process that made it comes next.
const groupName = "sage-check-"

// withCgroup makes a cgroup where sage's will be, or as near to it as there is
// a directory, and removes it after use.
func withCgroup(host Host, use func(dir string) error) error {
	mount, err := unifiedMount()
	if err != nil {
		return err
	}
	parent := existing(host.CgroupRoot, mount)
	removeLeft(parent)
	dir, err := os.MkdirTemp(parent, fmt.Sprintf("%s%d-", groupName, os.Getpid()))
	if err != nil {
		return err
	}
	err = use(dir)
	// A process that has ended is counted for some moments more.
	return errors.Join(err, await("remove "+dir, func() bool {
		err := os.Remove(dir)
		return err == nil || errors.Is(err, fs.ErrNotExist)
	}))
}

// removeLeft removes what a check that was killed has left behind: empty
// cgroups of processes that are no more.
func removeLeft(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, groupName+"*"))
	for _, dir := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupName), "-")
		if n, err := strconv.Atoi(pid); err == nil && errors.Is(unix.Kill(n, 0), unix.ESRCH) {
			_ = os.Remove(dir)
		}
	}
}

// writeFile never creates: a file that the kernel does not have must fail.
func writeFile(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// await asks until done says so.
func await(what string, done func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within 2 s", what)
		}
	}
	return nil
}
