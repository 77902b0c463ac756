// Package confine takes from a process what it needs no more: its user, its
// groups and capabilities, its files, its view of the file system, and every
// system call but those that it serves its container with. It is for the
// programs that touch the internet or a payload's connections, and it is not
// undone by anything but the end of the process.
//
// Each barrier stands alone: no path can be opened because the root is an empty
// directory, because Landlock says no, and because the filter ends a process
// that tries.
package confine

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
)

// Role is which of the two programs the process is; each has system calls that
// the other has not.
type Role uint8

const (
	// Bridge accepts connections and passes them on. It makes no socket.
	Bridge Role = iota + 1
	// Proxy resolves names and dials: TCP and UDP over IPv4 and IPv6 only.
	Proxy
)

func (r Role) String() string {
	if r == Bridge {
		return "bridge"
	}
	return "proxy"
}

// Options say who the process is to be.
type Options struct {
	Role     Role
	UID, GID int
	Root     string // an empty directory that the user cannot write to
	Files    uint64 // RLIMIT_NOFILE, soft and hard
}

// Enter confines the process and reads back, for every thread, that it is. On
// an error the process is confined in part and must end. It wants a program
// without cgo that [Start] has started, or root. Call [CloseOthers] before it.
// Afterwards no file can be opened, so whatever reads one comes before; times
// are written in UTC.
func Enter(o Options) error {
	// Else the first time that is written out would open /etc/localtime.
	time.Local = time.UTC
	// Executed by descriptor, it has a number for a name. ps(1) is all that cares.
	_ = os.WriteFile("/proc/self/comm", []byte("sage-"+o.Role.String()), 0)
	filter, err := Filter(o.Role, os.Getpid())
	if err == nil {
		program, err = sys.FindProgram()
	}
	if err == nil {
		err = enter(o, filter)
	}
	return errcode.Wrap(errcode.EnforcementFailed, "confine the process", err)
}

func enter(o Options, filter []byte) error {
	if o.UID <= 0 || o.GID <= 0 {
		return fmt.Errorf("saw user %d and group %d, want numbers above 0", o.UID, o.GID)
	}
	keepProcs()
	tasks, err := os.Open("/proc/self/task")
	if err != nil {
		return err
	}
	defer tasks.Close()
	for _, step := range []func(Options) error{limitFiles, dropBounding, changeRoot, changeUser, closeToOthers} {
		if err := step(o); err != nil {
			return err
		}
	}
	witnesses, err := openThreads(tasks)
	if err != nil {
		return err
	}
	defer closeAll(witnesses)
	// Through it, the process would still reach files: /proc/PID/task/../../..
	if err := errors.Join(tasks.Close(), landlock(o.Role), sys.LoadFilterEverywhere(filter)); err != nil {
		return err
	}
	return checkThreads(witnesses, o)
}

// limitFiles bounds what a flood of connections can make the process hold, and
// leaves no core file, which would hold what passed through. A host whose own
// limit is lower keeps that.
func limitFiles(o Options) error {
	for resource, limit := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: o.Files} {
		var was, got unix.Rlimit
		if err := unix.Getrlimit(resource, &was); err != nil {
			return os.NewSyscallError("getrlimit", err)
		}
		limit = min(limit, was.Max)
		want := unix.Rlimit{Cur: limit, Max: limit}
		if err := cmp.Or(unix.Setrlimit(resource, &want), unix.Getrlimit(resource, &got)); err != nil {
			return os.NewSyscallError("setrlimit", err)
		}
		if got != want {
			return fmt.Errorf("resource limit %d: saw %d, want %d", resource, got.Cur, limit)
		}
	}
	return nil
}

// dropBounding comes before the change of user, after which it is not allowed.
// The kernel says EINVAL to the first capability that it does not know. A call
// in every thread costs some 100 microseconds, and there are 41 capabilities:
// [Start] has dropped them beforehand, in the one thread that there was.
func dropBounding(Options) error {
	for c := uintptr(0); ; c++ {
		in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil
		}
		if err != nil {
			return os.NewSyscallError("prctl(PR_CAPBSET_READ)", err)
		}
		if in == 0 {
			continue
		}
		if err := sys.EveryThread("prctl(PR_CAPBSET_DROP)", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); err != nil {
			return err
		}
	}
}

// changeRoot enters the empty directory. What the process could make there it
// could also open again, so the directory must be out of its reach.
func changeRoot(o Options) error {
	dir, err := os.Open(o.Root)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := checkRoot(dir, o); err != nil {
		return err
	}
	if err := dir.Chdir(); err != nil {
		return err
	}
	return os.NewSyscallError("chroot", unix.Chroot("."))
}

func checkRoot(dir *os.File, o Options) error {
	if names, _ := dir.Readdirnames(1); len(names) != 0 {
		return fmt.Errorf("root %s: saw an entry, want an empty directory", o.Root)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if int(st.Uid) == o.UID || int(st.Gid) == o.GID && st.Mode&0o020 != 0 || st.Mode&0o002 != 0 {
		return fmt.Errorf("root %s: saw owner %d:%d and mode %o, want a directory that user %d cannot write to", o.Root, st.Uid, st.Gid, st.Mode&0o7777, o.UID)
	}
	return nil
}

// changeUser goes from root to a user without groups, unless the process was
// started as that, and gives up the capabilities, the ambient ones included.
func changeUser(o Options) error {
	uid, gid := uintptr(o.UID), uintptr(o.GID)
	groups, err := unix.Getgroups()
	if err != nil {
		return os.NewSyscallError("getgroups", err)
	}
	if len(groups) > 0 || os.Getuid() != o.UID || os.Getgid() != o.GID {
		err = cmp.Or(
			sys.EveryThread("setgroups", unix.SYS_SETGROUPS, 0, 0, 0),
			sys.EveryThread("setresgid", unix.SYS_SETRESGID, gid, gid, gid),
			sys.EveryThread("setresuid", unix.SYS_SETRESUID, uid, uid, uid))
	}
	return cmp.Or(err, sys.ClearCapabilities())
}

// closeToOthers keeps processes of the same user, the bridges and proxies of
// other containers, from tracing this one and from opening its descriptors. The
// kernel resets it at a change of user, so it comes after.
func closeToOthers(Options) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_DUMPABLE)", err)
	}
	got, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return os.NewSyscallError("prctl(PR_GET_DUMPABLE)", err)
	}
	if got != 0 {
		return fmt.Errorf("prctl(PR_GET_DUMPABLE): saw %d, want 0", got)
	}
	// Landlock wants it of each thread; the filter would see to it by itself.
	if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && set == 1 {
		return nil
	}
	return sys.EveryThread("prctl(PR_SET_NO_NEW_PRIVS)", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
}

// Procs bounds how many threads run Go code.
func Procs(n int) { runtime.GOMAXPROCS(n) }

// keepProcs has the runtime stay with the number that it has. It would otherwise
// ask every second how many processors there are (sched_getaffinity(2), and the
// files of its cgroup), which the filter ends.
func keepProcs() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0)) }

// Settle gives memory back that only the start needed: what was allocated, and
// the pages of the program itself, of which the kernel maps sixteen for each one
// that is touched. It wants a process that is confined.
func Settle() error {
	debug.FreeOSMemory()
	return program.Release()
}

// program is found while there still is a /proc.
var program sys.Program
