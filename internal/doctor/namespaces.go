package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// namespaceKinds are the files of /proc/PID/ns that a posture speaks of.
var namespaceKinds = []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"}

// caller is this very thread. The first one, which /proc/self shows, may be one
// that libcontainer has put into the container's mount namespace for good: in a
// twelfth of all starts it was.
const caller = "/proc/thread-self"

// namespaceSet are the links of one process, by kind.
type namespaceSet map[string]string

// strangers are those that a container shares nothing with: the host, and
// whoever asks, which may be in other namespaces. Both stay in them, so that
// asking once does, early, while this thread is still where it began.
var strangers = sync.OnceValues(func() ([]namespaceSet, error) {
	host, err := hostProcess(os.DirFS("/proc"))
	if err != nil {
		return nil, err
	}
	theirs, err := readNamespaces(host)
	if err != nil {
		return nil, err
	}
	ours, err := readNamespaces(os.DirFS(caller))
	return []namespaceSet{theirs, ours}, err
})

// Prepare reads what [Collect] compares with, so that it need not.
func Prepare() { _, _ = strangers() }

func readNamespaces(dir fs.FS) (namespaceSet, error) {
	set := namespaceSet{}
	for _, kind := range namespaceKinds {
		id, err := namespace(dir, kind)
		if err != nil {
			return nil, err
		}
		set[kind] = id
	}
	return set, nil
}

// ownNamespaces lists the kinds in which dir, of /proc, shares its namespace
// with none of the others.
func ownNamespaces(dir fs.FS, others ...namespaceSet) ([]string, error) {
	set, err := readNamespaces(dir)
	if err != nil {
		return nil, err
	}
	own := []string{}
	for _, kind := range namespaceKinds {
		if !slices.ContainsFunc(others, func(of namespaceSet) bool { return of[kind] == set[kind] }) {
			own = append(own, kind)
		}
	}
	return own, nil
}

// namespace is the text of the link, as net:[4026531840]. All namespaces lie on
// one file system of the kernel, so that the inode's number is enough here.
func namespace(dir fs.FS, kind string) (string, error) {
	id, err := fs.ReadLink(dir, "ns/"+kind)
	if err != nil {
		return "", fmt.Errorf("own_namespaces: %w", err)
	}
	if !strings.HasPrefix(id, kind+":[") {
		return "", fmt.Errorf("own_namespaces: ns/%s reads %q, want %s:[number]", kind, id, kind)
	}
	return id, nil
}

// hostProcess picks the process whose namespaces are the host's: pid 1. Where
// it lets nobody look, not even root, kthreadd does as well, since the kernel's
// own threads are in the namespaces that the machine came up with.
func hostProcess(proc fs.FS) (fs.FS, error) {
	first, err := fs.Sub(proc, "1")
	if err != nil {
		return nil, err
	}
	_, err = namespace(first, "user")
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return first, err
	}
	second, suberr := fs.Sub(proc, "2")
	if suberr != nil || !isKernelThread(second) {
		return nil, err
	}
	return second, nil
}

// kernelThread is PF_KTHREAD of the kernel's linux/sched.h, in the flags that
// /proc/PID/stat shows as the seventh field behind the name.
const kernelThread = 0x200000

func isKernelThread(dir fs.FS) bool {
	stat, err := fs.ReadFile(dir, "stat")
	if err != nil {
		return false
	}
	// The name stands in parentheses and may hold some itself.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(fields[6], 10, 32)
	return err == nil && flags&kernelThread != 0
}
