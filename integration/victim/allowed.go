package main

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// allowed are calls that a filter is to leave alone, since programs need them.
func allowed() []attempt {
	self := uintptr(os.Getpid())
	return []attempt{
		{"allowed unshare files", inChild(unix.SYS_UNSHARE, unix.CLONE_FILES)},
		{"allowed unshare fs", inChild(unix.SYS_UNSHARE, unix.CLONE_FS)},
		{"allowed unshare semaphores", inChild(unix.SYS_UNSHARE, unix.CLONE_SYSVSEM)},
		{"allowed unshare nothing", inChild(unix.SYS_UNSHARE, 0)},
		{"allowed clone", forking(unix.SYS_CLONE, uintptr(unix.SIGCHLD))},
		{"allowed pidfd_open", call(unix.SYS_PIDFD_OPEN, self, 0)},
		{"allowed pidfd_send_signal", callOn(ownPidfd, unix.SYS_PIDFD_SEND_SIGNAL, 0, 0, 0)},
		{"allowed file_getattr", call(unix.SYS_FILE_GETATTR, cwd, text("/tmp"), zeroes(32), 24, 0)},
		{"allowed getxattrat", call(unix.SYS_GETXATTRAT, cwd, text("/tmp"), 0, text("user.none"), zeroes(16), 16)},
		{"allowed mknodat fifo", call(unix.SYS_MKNODAT, cwd, text("/tmp/fifo-"+pid()), unix.S_IFIFO|0o600, 0)},
		{"allowed mknodat file", call(unix.SYS_MKNODAT, cwd, text("/tmp/file-"+pid()), unix.S_IFREG|0o600, 0)},
		{"allowed mknodat socket", call(unix.SYS_MKNODAT, cwd, text("/tmp/socket-"+pid()), unix.S_IFSOCK|0o600, 0)},
		{"allowed personality linux", call(unix.SYS_PERSONALITY, 0)},
		{"allowed personality asked", call(unix.SYS_PERSONALITY, 0xffffffff)},
		{"allowed personality old version", call(unix.SYS_PERSONALITY, 0x20000)},
		{"allowed prctl no_new_privs", call(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)},
		{"allowed prctl dumpable", call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0)},
		{"allowed prctl death signal", call(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, 0, 0, 0, 0)},
		{"allowed prctl name", call(unix.SYS_PRCTL, unix.PR_SET_NAME, text("victim"), 0, 0, 0)},
		{"allowed prctl subreaper", call(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)},
		{"allowed seccomp", inChild(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, data(word(0x7fff0000, 4)))},
		{"allowed memfd_create", call(unix.SYS_MEMFD_CREATE, text("x"), unix.MFD_CLOEXEC)},
		{"allowed membarrier", call(unix.SYS_MEMBARRIER, 0, 0, 0)},
		{"allowed close_range", call(unix.SYS_CLOSE_RANGE, 1000, 1001, 0)},
		{"allowed openat2", call(unix.SYS_OPENAT2, cwd, text("/"), zeroes(24), 24)},
		{"allowed landlock", call(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1)},
		{"allowed mseal", call(unix.SYS_MSEAL, 0, 0, 0)},
		{"allowed cachestat", call(unix.SYS_CACHESTAT, none, zeroes(16), zeroes(40), 0)},
		{"allowed futex wake", call(unix.SYS_FUTEX, zeroes(4), 1, 0, 0, 0, 0)},
		{"allowed mbind", call(unix.SYS_MBIND, 0, 0, 0, 0, 0, 0)},
		{"allowed vmsplice", call(unix.SYS_VMSPLICE, none, 0, 0, 0)},
		{"allowed adjtimex", call(unix.SYS_ADJTIMEX, zeroes(256))},
		{"allowed inotify", call(unix.SYS_INOTIFY_INIT1, 0)},
		{"allowed eventfd", call(unix.SYS_EVENTFD2, 0, 0)},
		{"allowed prlimit", call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, zeroes(16))},
		{"allowed copy_file_range", call(unix.SYS_COPY_FILE_RANGE, none, 0, none, 0, 1, 0)},
	}
}

// pid makes a name new for every process.
// unused is a name that no other victim in the same root file system takes, as
// their numbers begin anew in each container.
func unused() string { return strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + pid() }

func pid() string { return strconv.Itoa(os.Getpid()) }
