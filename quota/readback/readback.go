// Package readback says what the files of a container's cgroup (version 2) are
// to hold, reads them, and compares. It writes none of them, and what follows
// from a difference is its caller's to decide.
package readback

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Unlimited is the value of a limit that is not there: "max" in a file.
const Unlimited = -1

// Limits are the hard limits of one cgroup, in the units of its files
// (Documentation/admin-guide/cgroup-v2.rst).
type Limits struct {
	CPUQuota  int64 `json:"cpu_quota_us"` // of every CPUPeriod
	CPUPeriod int64 `json:"cpu_period_us"`
	// CPUBurst is time that may be used above the quota, saved from before.
	CPUBurst    int64 `json:"cpu_burst_us"`
	MemoryBytes int64 `json:"memory_bytes"` // whole pages
	SwapBytes   int64 `json:"swap_bytes"`
	// OOMGroup says that the container dies as a whole when it is out of memory.
	OOMGroup  bool  `json:"oom_group"`
	Processes int64 `json:"processes"` // threads count
}

// Read reads the cgroup whose directory dir is. A limit whose file is not there
// is an error: where its controller is not enabled, nothing limits.
func Read(dir fs.FS) (Limits, error) {
	var l Limits
	for _, file := range []struct {
		name string
		into func(text string) error
	}{
		{"cgroup.type", isDomain},
		{"cpu.max", l.readCPU},
		{"memory.max", number(&l.MemoryBytes)},
		{"memory.swap.max", number(&l.SwapBytes)},
		{"memory.oom.group", flag(&l.OOMGroup)},
		{"pids.max", number(&l.Processes)},
	} {
		text, err := readLine(dir, file.name)
		if controller, _, _ := strings.Cut(file.name, "."); errors.Is(err, fs.ErrNotExist) && controller != "cgroup" {
			err = fmt.Errorf("%w: the controller %s is not enabled for this cgroup", err, controller)
		}
		if err == nil {
			err = file.into(text)
		}
		if err != nil {
			return Limits{}, fmt.Errorf("%s: %w", file.name, err)
		}
	}
	if err := l.readBurst(dir); err != nil {
		return Limits{}, err
	}
	return l, canKill(dir)
}

// readBurst: Linux 5.14 has the file where it can be done at all.
func (l *Limits) readBurst(dir fs.FS) error {
	const name = "cpu.max.burst"
	text, err := readLine(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = number(&l.CPUBurst)(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// canKill wants what ends a container that forks faster than it can be killed
// (S-134).
func canKill(dir fs.FS) error {
	if _, err := fs.Stat(dir, "cgroup.kill"); err != nil {
		return fmt.Errorf("cgroup.kill: %w: Linux 5.14 has it", err)
	}
	return nil
}

// isDomain: a threaded cgroup is limited by the one above it alone.
func isDomain(text string) error {
	if text != "domain" {
		return fmt.Errorf("saw %.40q, want %q", text, "domain")
	}
	return nil
}

// readLine is strict, as what is read decides: one line that ends.
func readLine(dir fs.FS, name string) (string, error) {
	data, err := fs.ReadFile(dir, name)
	if err != nil {
		return "", err
	}
	line, rest, ended := strings.Cut(string(data), "\n")
	if !ended || rest != "" {
		return "", fmt.Errorf("saw %.40q, want one line", data)
	}
	return line, nil
}

func (l *Limits) readCPU(text string) error {
	quota, period, _ := strings.Cut(text, " ")
	if err := number(&l.CPUQuota)(quota); err != nil {
		return err
	}
	return number(&l.CPUPeriod)(period)
}

// number takes what the kernel prints, and nothing that only looks like it.
func number(into *int64) func(string) error {
	return func(text string) error {
		if text == "max" {
			*into = Unlimited
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
			return fmt.Errorf("saw %.40q, want a number or max", text)
		}
		*into = n
		return nil
	}
}

func flag(into *bool) func(string) error {
	return func(text string) error {
		if text != "0" && text != "1" {
			return fmt.Errorf("saw %.40q, want 0 or 1", text)
		}
		*into = text == "1"
		return nil
	}
}
