package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Process is one line of the process table.
type Process struct {
	PID, Parent int
	State       byte
	// Name is the kernel's short name; Argv is empty for a zombie.
	Name string
	Argv string
}

// String names a process in a failure message.
func (p Process) String() string {
	return fmt.Sprintf("%d (%s, state %c, parent %d) %q", p.PID, p.Name, p.State, p.Parent, p.Argv)
}

// Processes returns the process table of the host.
func Processes() ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A process that ends between the two reads is no error.
		if p, ok := readProcess(pid); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

func readProcess(pid int) (Process, bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Process{}, false
	}
	p, ok := parseStat(string(stat))
	if !ok {
		return Process{}, false
	}
	argv, _ := os.ReadFile(dir + "/cmdline")
	p.Argv = strings.TrimRight(strings.ReplaceAll(string(argv), "\x00", " "), " ")
	return p, true
}

// parseStat reads pid, name, state and parent. The name may hold spaces and
// brackets, so it ends at the last bracket of the line.
func parseStat(stat string) (Process, bool) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 1 || end < open {
		return Process{}, false
	}
	rest := strings.Fields(stat[end+1:])
	if len(rest) < 2 {
		return Process{}, false
	}
	pid, err1 := strconv.Atoi(strings.TrimSpace(stat[:open]))
	parent, err2 := strconv.Atoi(rest[1])
	p := Process{PID: pid, Parent: parent, State: rest[0][0], Name: stat[open+1 : end]}
	return p, err1 == nil && err2 == nil
}

// Descendants returns the processes below this one. With Main's subreaper that
// is everything a test started, orphans and containers too.
func Descendants() ([]Process, error) {
	all, err := Processes()
	if err != nil {
		return nil, err
	}
	byParent := map[int][]Process{}
	for _, p := range all {
		byParent[p.Parent] = append(byParent[p.Parent], p)
	}
	var found []Process
	for queue := []int{os.Getpid()}; len(queue) > 0; queue = queue[1:] {
		for _, p := range byParent[queue[0]] {
			found = append(found, p)
			queue = append(queue, p.PID)
		}
	}
	return found, nil
}
