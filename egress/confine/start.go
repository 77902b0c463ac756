package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
)

// kept is what [Enter] needs until it gives it up: to change the root, and to
// reach it in a folder that is root's alone.
var kept = []uintptr{unix.CAP_SYS_CHROOT, unix.CAP_DAC_READ_SEARCH}

// Start starts a program that will call [Enter], as the user that it is to be,
// with no_new_privs, no groups and no capabilities but the few that Enter needs,
// none of them in the bounding set. Done here, in a process that still has one
// thread, it costs microseconds. The program is executed by descriptor, so that
// it may lie in a folder which only root can enter.
//
// cmd.Path names the program; Start sets cmd.SysProcAttr's user and ambient
// capabilities. The caller must be root.
func Start(cmd *exec.Cmd, uid, gid int) error { return StartIn(cmd, uid, gid, nil) }

// StartIn is [Start] in the network namespace that netns is open on, if not nil:
// every socket that the program makes will be of that namespace.
func StartIn(cmd *exec.Cmd, uid, gid int, netns *os.File) error {
	program, err := os.OpenFile(cmd.Path, unix.O_PATH, 0)
	if err != nil {
		return errcode.Wrap(errcode.EnforcementFailed, "open the program", err)
	}
	defer program.Close()
	// The last of those that it inherits, until CloseOthers: any place above them
	// would have to be kept clear, and one above 63 makes the kernel enlarge our
	// table of descriptors, which it does not share out again between our threads
	// before an RCU grace period, some 10 ms later.
	cmd.ExtraFiles = append(slices.Clip(cmd.ExtraFiles), program)
	cmd.Path = fmt.Sprintf("/proc/self/fd/%d", unix.Stderr+len(cmd.ExtraFiles))
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	cmd.SysProcAttr.AmbientCaps = kept
	sys.OnDyingThread(func() {
		if netns != nil {
			err = os.NewSyscallError("setns", unix.Setns(int(netns.Fd()), unix.CLONE_NEWNET))
		}
		if err == nil {
			err = lessen()
		}
		if err == nil {
			err = cmd.Start()
		}
	})
	return errcode.Wrap(errcode.EnforcementFailed, "start a confined process", err)
}

// lessen takes from the calling thread what a program that it starts must not
// get. What is kept is made inheritable first, since a capability outside the
// bounding set can not become so.
func lessen() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	for _, c := range kept {
		sets[c/32].Inheritable |= 1 << (c % 32)
	}
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return os.NewSyscallError("capset", err)
	}
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break
		}
		if err != nil {
			return os.NewSyscallError("prctl(PR_CAPBSET_DROP)", err)
		}
	}
	// Of the program's timers, none needs to be exact to less than a millisecond. The
	// Go runtime's watchdog would wake up every 20 microseconds, see internal/sysmon.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(time.Millisecond), 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_TIMERSLACK)", err)
	}
	return os.NewSyscallError("prctl(PR_SET_NO_NEW_PRIVS)", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}
