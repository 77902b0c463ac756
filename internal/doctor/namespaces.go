package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// namespaceKinds are the files of /proc/PID/ns that a posture speaks of.
var namespaceKinds = []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"}

// caller is this very thread. The first one, which /proc/self shows, may be one
// that libcontainer has put into the container's mount namespace for good: in a
// twelfth of all starts it was.
const caller = "/proc/thread-self"

// ownNamespaces lists the kinds in which dir, of /proc, shares its namespace
// with none of the others: the host's, and those of whoever asks, which may be
// different ones.
func ownNamespaces(dir fs.FS, others ...fs.FS) ([]string, error) {
	own := []string{}
	for _, kind := range namespaceKinds {
		id, err := namespace(dir, kind)
		if err != nil {
			return nil, err
		}
		shared := false
		for _, other := range others {
			theirs, err := namespace(other, kind)
			if err != nil {
				return nil, err
			}
			shared = shared || id == theirs
		}
		if !shared {
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
