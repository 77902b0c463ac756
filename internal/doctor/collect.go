package doctor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/spec"
)

// ErrEnded says that the process, or the thread, runs no more.
var ErrEnded = errors.New("has ended")

// Collect reads what the kernel shows for one process, or for one thread by
// its number. Every field is read; one that this kernel does not report is an
// error that names it.
//
// The process is stopped for a moment, see [sys.SeccompFilters]: nobody in this
// process may wait for it meanwhile, nor may a container's start be under way.
func Collect(pid int) (spec.Posture, error) { return collectFrom(pid, appArmorNow) }

// CollectWaiting is [Collect] for a container's init between create and start,
// or an exec before its program: of AppArmor it gives the profile that the
// program will begin under, which execve(2) brings.
func CollectWaiting(pid int) (spec.Posture, error) { return collectFrom(pid, appArmorNext) }

func collectFrom(pid int, appArmor attribute) (spec.Posture, error) {
	got, err := collect(pid, appArmor)
	if err == nil {
		return got, nil
	}
	// A process that ends meanwhile makes any of the files fail.
	if _, again := readStatus(os.DirFS("/proc/" + strconv.Itoa(pid))); hasEnded(again) && !errors.Is(err, ErrEnded) {
		err = fmt.Errorf("%w (%w)", ErrEnded, err)
	}
	return spec.Posture{}, fmt.Errorf("posture of process %d: %w", pid, err)
}

func hasEnded(err error) bool {
	return errors.Is(err, ErrEnded) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

func collect(pid int, appArmor attribute) (spec.Posture, error) {
	// Held open, the directory is of this very process: read through it, the
	// files of one that took over its number cannot be mistaken for its own.
	dir, err := sys.OpenDir("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return spec.Posture{}, err
	}
	defer dir.Close()
	shown, err := readStatus(dir)
	if err != nil {
		return spec.Posture{}, err
	}
	got := shown.posture()
	if got.Layer2, err = firstFilter(pid, got.Filters); err != nil {
		return spec.Posture{}, err
	}
	// After the filters, which were asked for by number: that these files can
	// still be read shows that the number was this process's until then.
	err = readFiles(dir, appArmor, &got)
	return got, err
}

// firstFilter is the digest of the filter that was loaded first; "" if there
// is none, which the status says and the filters themselves cannot.
func firstFilter(tid, count int) (string, error) {
	if count == 0 {
		return "", nil
	}
	filters, err := sys.SeccompFilters(tid)
	if err != nil {
		return "", fmt.Errorf("layer2_sha256: %w", err)
	}
	if len(filters) != count {
		return "", fmt.Errorf("layer2_sha256: read back %d filters, where the status says %d", len(filters), count)
	}
	sum := sha256.Sum256(filters[0])
	return hex.EncodeToString(sum[:]), nil
}

// readFiles fills what other files of /proc/PID than the status say.
func readFiles(dir fs.FS, appArmor attribute, got *spec.Posture) (err error) {
	others, err := strangers()
	if err != nil {
		return err
	}
	if got.OwnNamespaces, err = ownNamespaces(dir, others...); err != nil {
		return err
	}
	if got.Rlimits, err = readLimits(dir); err != nil {
		return err
	}
	if got.OOMScoreAdj, err = readOOMScoreAdj(dir); err != nil {
		return err
	}
	got.AppArmor, err = readAppArmor(dir, os.DirFS("/sys/module"), appArmor)
	return err
}

// readOOMScoreAdj is of the process, whichever thread is asked.
func readOOMScoreAdj(dir fs.FS) (int, error) {
	data, err := fs.ReadFile(dir, "oom_score_adj")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSuffix(string(data), "\n"))
	if err != nil {
		return 0, fmt.Errorf("oom_score_adj: %w", err)
	}
	return n, nil
}

// Thread is one thread of a process and what the kernel shows for it.
type Thread struct {
	TID     int
	Posture spec.Posture
}

// Threads collects every thread of a process: seccomp filters, capabilities,
// ids and most namespaces belong to threads, and [Collect] sees but the first.
// Threads that end meanwhile are left out. Until it executes the program, a
// container's init has threads of its own that are under no filter yet.
func Threads(pid int) ([]Thread, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, fmt.Errorf("threads of process %d: %w", pid, err)
	}
	var threads []Thread
	// One listing does: a thread that begins meanwhile has what the one that
	// made it had, and filters are never taken off.
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			return nil, fmt.Errorf("threads of process %d: %w", pid, err)
		}
		got, err := Collect(tid)
		if errors.Is(err, ErrEnded) {
			continue
		}
		if err != nil {
			return nil, err
		}
		threads = append(threads, Thread{TID: tid, Posture: got})
	}
	slices.SortFunc(threads, func(a, b Thread) int { return a.TID - b.TID })
	return threads, nil
}
