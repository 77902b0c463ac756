package confine

import (
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// openThreads opens the status of every thread through the directory of them,
// which was opened before the root was changed. The text is made when it is
// read, so what is opened now tells what holds later.
func openThreads(tasks *os.File) ([]int, error) {
	names, err := tasks.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, name := range names {
		fd, err := unix.Openat(int(tasks.Fd()), path.Join(name, "status"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			closeAll(fds)
			return nil, &os.PathError{Op: "open", Path: "/proc/self/task/" + name + "/status", Err: err}
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// checkThreads asks the kernel of every thread that there was; one that came
// since has the credentials and filters of one of them.
func checkThreads(fds []int, o Options) error {
	want := wanted(o)
	for _, fd := range fds {
		text := make([]byte, 8<<10) // a status has some 1.5 KiB
		n, err := unix.Pread(fd, text, 0)
		if err != nil {
			return os.NewSyscallError("pread(/proc/self/task/*/status)", err)
		}
		if err := compare(string(text[:n]), want); err != nil {
			return err
		}
	}
	return nil
}

// wanted are the lines of proc_pid_status(5) that say whether a thread is
// confined; all of them are there since Linux 4.10.
func wanted(o Options) map[string]string {
	const none = "0000000000000000"
	uid, gid := fmt.Sprint(o.UID), fmt.Sprint(o.GID)
	return map[string]string{
		"Uid": strings.Join([]string{uid, uid, uid, uid}, "\t"),
		"Gid": strings.Join([]string{gid, gid, gid, gid}, "\t"), "Groups": "",
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none,
		"NoNewPrivs": "1", "Seccomp": fmt.Sprint(unix.SECCOMP_MODE_FILTER),
	}
}

func compare(status string, want map[string]string) error {
	seen := 0
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		wanted, ok := want[name]
		if !ok {
			continue
		}
		seen++
		if got := strings.TrimSpace(value); got != wanted {
			return fmt.Errorf("%s of a thread: saw %q, want %q", name, got, wanted)
		}
	}
	if seen != len(want) {
		return fmt.Errorf("status of a thread: saw %d of %d lines", seen, len(want))
	}
	return nil
}
