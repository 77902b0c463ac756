package doctor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

// filterAnswer is an error that getpgid(2) does not know, so that it can only
// come from the filter.
const filterAnswer = unix.ENOTUNIQ

// probeFilter lets everything through but getpgid(2).
func probeFilter() []byte {
	var filter []byte
	for _, i := range []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_GETPGID},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(filterAnswer)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	} {
		filter = binary.LittleEndian.AppendUint16(filter, i.Code)
		filter = append(filter, i.Jt, i.Jf)
		filter = binary.LittleEndian.AppendUint32(filter, i.K)
	}
	return filter
}

// seccompFilter wants the actions that sage's own filter uses, then tries one.
func seccompFilter(Host) (seen string, err error) {
	actions, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	if err != nil {
		return "", err
	}
	for _, action := range []string{"kill_process", "errno", "allow"} {
		if !strings.Contains(" "+strings.TrimSpace(string(actions))+" ", " "+action+" ") {
			return "", fmt.Errorf("the kernel's actions are %q, without %s", actions, action)
		}
	}
	sys.OnDyingThread(func() { err = filterThread() })
	return "no_new_privs is set and a filter takes effect", err
}

// filterThread does not believe seccomp(2) that it loaded a filter: an outer
// filter may answer in its place, with 0 (attacks.md 1).
func filterThread() error {
	if err := sys.LoadFilter(probeFilter()); err != nil {
		return err
	}
	if _, err := unix.Getpgid(0); !errors.Is(err, filterAnswer) {
		return errors.New("a filter was loaded and takes no effect")
	}
	shown, err := readStatus(os.DirFS("/proc/thread-self"))
	if err == nil && (shown.noNewPrivs != 1 || shown.seccomp != unix.SECCOMP_MODE_FILTER || shown.filters == 0) {
		err = fmt.Errorf("status shows no_new_privs %d, seccomp %d, %d filters", shown.noNewPrivs, shown.seccomp, shown.filters)
	}
	return err
}

// seccompReadBack looks at the filter that was loaded last: there may be others
// above it, under which this program itself was started.
func seccompReadBack(Host) (string, error) {
	filter := probeFilter()
	err := standIn{filter: filter}.with(func(pid int) error {
		filters, err := sys.SeccompFilters(pid)
		if err == nil && !bytes.Equal(filters[len(filters)-1], filter) {
			err = errors.New("PTRACE_SECCOMP_GET_FILTER: the bytes are not those that were loaded")
		}
		return err
	})
	return "PTRACE_SECCOMP_GET_FILTER gives the bytes that were loaded", err
}

// posture needs a process under a filter, or the filters are not asked for.
func posture(Host) (string, error) {
	err := standIn{filter: probeFilter()}.with(func(pid int) error {
		_, err := Collect(pid)
		return err
	})
	return "the kernel reports every field of it", err
}

// namespaceFlags are those that every container has; a namespace of users is
// not among them, see userNamespaces.
const namespaceFlags = unix.CLONE_NEWCGROUP | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWNS |
	unix.CLONE_NEWPID | unix.CLONE_NEWUTS

func namespaces(Host) (string, error) {
	const want = "cgroup ipc mnt net pid uts"
	err := standIn{clone: namespaceFlags}.with(func(pid int) error {
		shown, err := Collect(pid)
		if got := strings.Join(shown.OwnNamespaces, " "); err == nil && got != want {
			err = fmt.Errorf("a process made with namespaces of its own has %q, want %q", got, want)
		}
		return err
	})
	return want, err
}

// pidfd sends signal 0, which only asks whether it could.
func pidfd(Host) (string, error) {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return "", os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(fd)
	return "pidfd_open, pidfd_send_signal", os.NewSyscallError("pidfd_send_signal", unix.PidfdSendSignal(fd, 0, nil, 0))
}
