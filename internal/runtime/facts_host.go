package runtime

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/hardening"
	"github.com/sage-sandbox/sage/internal/doctor"
	"github.com/sage-sandbox/sage/internal/sys"
)

// namespaceFacts looks at the namespaces that s names by path. One that cannot
// be looked at has no facts, and is refused for it.
func namespaceFacts(s *specs.Spec) map[specs.LinuxNamespaceType]hardening.NamespaceFacts {
	out := map[specs.LinuxNamespaceType]hardening.NamespaceFacts{}
	if s.Linux == nil {
		return out
	}
	for _, ns := range s.Linux.Namespaces {
		if facts, ok := namespaceAt(ns.Path); ns.Path != "" && ok {
			out[ns.Type] = facts
		}
	}
	return out
}

// namespaceKinds are the values of ioctl_nsfs(2)'s NS_GET_NSTYPE.
var namespaceKinds = map[int]string{
	unix.CLONE_NEWNET: "net", unix.CLONE_NEWIPC: "ipc", unix.CLONE_NEWUTS: "uts", unix.CLONE_NEWPID: "pid",
	unix.CLONE_NEWUSER: "user", unix.CLONE_NEWNS: "mnt", unix.CLONE_NEWCGROUP: "cgroup", unix.CLONE_NEWTIME: "time",
}

func namespaceAt(path string) (hardening.NamespaceFacts, bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return hardening.NamespaceFacts{}, false
	}
	defer unix.Close(fd)
	number, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE)
	kind, known := namespaceKinds[number]
	if err != nil || !known {
		return hardening.NamespaceFacts{}, false
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return hardening.NamespaceFacts{}, false
	}
	return hardening.NamespaceFacts{Kind: kind, Host: doctor.IsHostNamespace(kind, st.Ino)}, true
}

func appArmorEnabled() bool {
	data, err := sys.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && strings.HasPrefix(string(data), "Y")
}

// possibleCPUs is one more than the highest number of a CPU that can ever be
// there, from a list such as "0-7" (Documentation/admin-guide/cputopology.rst);
// 0 where the kernel does not say.
func possibleCPUs() int {
	data, err := sys.ReadFile("/sys/devices/system/cpu/possible")
	if err != nil {
		return 0
	}
	list := strings.TrimSpace(string(data))
	last, err := strconv.Atoi(list[strings.LastIndexAny(list, "-,")+1:])
	if err != nil {
		return 0
	}
	return last + 1
}

// hugePages are the sizes of which there are pages set aside below dir, or to be
// had on demand, by the names of the hugetlb controller's files.
func hugePages(dir string) (sizes []string) {
	pools, err := os.ReadDir(dir)
	if err != nil {
		return nil // a kernel without them
	}
	for _, pool := range pools {
		if kib, ok := pageSize(pool.Name()); ok && hasPages(filepath.Join(dir, pool.Name())) {
			sizes = append(sizes, hugePageName(kib))
		}
	}
	return sizes
}

// pageSize reads the name of a pool, as hugepages-2048kB.
func pageSize(pool string) (kib uint64, ok bool) {
	name, ok := strings.CutPrefix(pool, "hugepages-")
	if !ok {
		return 0, false
	}
	number, ok := strings.CutSuffix(name, "kB")
	kib, err := strconv.ParseUint(number, 10, 64)
	return kib, ok && err == nil
}

// hugePageName is as mem_fmt of the kernel's mm/hugetlb_cgroup.c has it.
func hugePageName(kib uint64) string {
	switch {
	case kib >= 1<<20:
		return strconv.FormatUint(kib>>20, 10) + "GB"
	case kib >= 1<<10:
		return strconv.FormatUint(kib>>10, 10) + "MB"
	}
	return strconv.FormatUint(kib, 10) + "KB"
}

func hasPages(pool string) bool {
	for _, file := range []string{"nr_hugepages", "nr_overcommit_hugepages"} {
		data, err := sys.ReadFile(filepath.Join(pool, file))
		if err == nil && strings.TrimSpace(string(data)) != "0" {
			return true
		}
	}
	return false
}

// noSwapLimit says whether this kernel has no file to limit swap with.
func noSwapLimit() bool {
	file := "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"
	if cgroups.IsCgroup2UnifiedMode() {
		// The root has no limits. Without swap in the kernel this one is missing too.
		file = "/proc/swaps"
	}
	_, err := os.Stat(file)
	return err != nil
}
