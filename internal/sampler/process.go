package sampler

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

// Process identifies one process: a number alone is used again.
type Process struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"` // starttime of proc_pid_stat(5), in clock ticks since the boot
}

// Identify tells which process has pid now.
func Identify(pid int) (Process, error) {
	s, err := readStat(pid)
	return Process{Pid: pid, Start: s.start}, err
}

// Alive says whether the process is there and not a zombie.
func (p Process) Alive() bool {
	s, err := readStat(p.Pid)
	return err == nil && s.start == p.Start && s.state != 'Z' && s.state != 'X'
}

// handle stands for a process whatever becomes of its number, and can be waited
// for by who is not its parent (pidfd_open(2), Linux 5.3).
type handle struct {
	file *os.File
	conn syscall.RawConn
}

// open is fs.ErrNotExist where the process has ended and was waited for.
func (p Process) open() (*handle, error) {
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	// Non-blocking, so that Go waits for it without a thread.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	h := &handle{file: os.NewFile(uintptr(fd), "pidfd")}
	h.conn, err = h.file.SyscallConn()
	// Only now is it sure that the number is not another's.
	if now, statErr := Identify(p.Pid); err == nil && (statErr != nil || now != p) {
		err = fs.ErrNotExist
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *handle) close() { _ = h.file.Close() }

// wait returns when the process has ended, or nothing can be said about it.
func (h *handle) wait() {
	_ = h.conn.Read(readable)
}

func (h *handle) hasEnded() (ended bool) {
	_ = h.conn.Control(func(fd uintptr) { ended = readable(fd) })
	return ended
}

func (h *handle) kill() {
	_ = h.conn.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
}

func readable(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, _ := unix.Poll(fds, 0)
	return n > 0
}

// stat is what is used of proc_pid_stat(5).
type stat struct {
	state   byte
	ticks   uint64 // of CPU time, user and system, in clock ticks
	threads int64
	start   uint64
	rss     int64 // in pages
}

func readStat(pid int) (stat, error) {
	data, err := sys.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(data))
}

// parseStat begins after the last parenthesis: the name before it is the
// process's to choose.
func parseStat(text string) (s stat, err error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 22 {
		return s, fmt.Errorf("proc stat: saw %d fields after the name, want 22 or more", len(fields))
	}
	s.state = fields[0][0]
	number := func(field int) (n uint64) { // as numbered in the manual page
		v, parseErr := strconv.ParseUint(fields[field-3], 10, 64)
		err = errors.Join(err, parseErr)
		return v
	}
	s.ticks = number(14) + number(15)
	s.threads, s.start, s.rss = int64(number(20)), number(22), int64(number(24))
	return s, err
}
