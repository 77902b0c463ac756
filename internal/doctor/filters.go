package doctor

import (
	"os"
	"strconv"
)

// Filters is the number of seccomp filters of process pid, which can be seen
// without stopping it (Linux 5.9).
func Filters(pid int) (int, error) {
	s, err := readStatus(os.DirFS("/proc/" + strconv.Itoa(pid)))
	if err != nil {
		return 0, err
	}
	return s.posture().Filters, nil
}
