package sys

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Program is where the running program's own file is mapped and not written to:
// its instructions and constants.
type Program []span

type span struct{ start, end uintptr }

// FindProgram reads /proc/self/maps (proc_pid_maps(5)).
func FindProgram() (Program, error) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer maps.Close()
	var p Program
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var s span
		var mode string
		line := lines.Text()
		if _, err := fmt.Sscanf(line, "%x-%x %s", &s.start, &s.end, &mode); err != nil {
			return nil, fmt.Errorf("/proc/self/maps: %w", err)
		}
		if strings.HasSuffix(line, exe) && !strings.Contains(mode, "w") {
			p = append(p, s)
		}
	}
	return p, nil
}

// Release takes the pages out of the process (MADV_DONTNEED of madvise(2)).
// What is needed again comes back from the page cache when it is touched.
func (p Program) Release() error {
	for _, s := range p {
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, s.start, s.end-s.start, unix.MADV_DONTNEED)
		if errno != 0 {
			return os.NewSyscallError("madvise(MADV_DONTNEED)", errno)
		}
	}
	return nil
}
