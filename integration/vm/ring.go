package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sage-sandbox/sage/integration/vm/plan"
)

// run is the whole command; the code is the payload's own where it has one.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	o, err := parseFlags(args, stderr)
	if err != nil {
		return 2, err
	}
	if os.Geteuid() != 0 {
		return 1, errors.New("only root can show the guest all of the host's files")
	}
	cache, err := cacheDir()
	if err != nil {
		return 1, err
	}
	r := &ring{options: o, cache: cache, stdout: stdout, stderr: stderr}
	defer r.removeDir()
	return r.all(ctx)
}

// ring is one run of the command: one guest, or several.
type ring struct {
	options
	cache  string // what is kept: kernels
	dir    string // what is not: disks, test binaries
	stdout io.Writer
	stderr io.Writer

	printing sync.Mutex // what follows, and lines of output
	table    []string
}

func cacheDir() (string, error) {
	if dir := os.Getenv("SAGE_CACHE"); dir != "" {
		return filepath.Abs(filepath.Join(dir, "vm"))
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: set SAGE_CACHE, XDG_CACHE_HOME or HOME: %w", err)
	}
	return filepath.Join(dir, "sage", "vm"), nil
}

func (r *ring) all(ctx context.Context) (int, error) {
	if err := r.makeDir(); err != nil {
		return 1, err
	}
	loads, err := r.payloads(ctx)
	if err != nil {
		return 1, err
	}
	unlock, err := lock(ctx, r.stderr)
	if err != nil {
		return 1, err
	}
	defer unlock()
	return r.guests(ctx, loads)
}

// guests boots each kernel, one after the other.
func (r *ring) guests(ctx context.Context, loads []payload) (int, error) {
	worst := 0
	for _, release := range r.kernels {
		k, err := r.findKernel(ctx, release)
		if err != nil {
			return 1, err
		}
		code, err := r.beneath(ctx, k, loads)
		if err != nil {
			return 1, err
		}
		worst = max(worst, code)
	}
	if len(r.table) > 1 || r.script == "" {
		fmt.Fprintf(r.stderr, "\n%s\n", strings.Join(r.table, "\n"))
	}
	return worst, nil
}

// beneath boots a kernel once for each payload, some at a time: much of what a
// guest does is to wait, and one that is emulated does not fill two processors.
func (r *ring) beneath(ctx context.Context, k kernel, loads []payload) (int, error) {
	accel, err := r.chooseAccel(ctx, k)
	if err != nil {
		return 1, err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(r.beside)
	codes := make([]int, len(loads))
	for i, load := range loads {
		m := machine{
			ring: r, kernel: k, guest: load.guest, accel: accel, timeout: r.timeout, cpus: r.processors(len(loads)),
			out: &lines{to: r.stdout, mu: &r.printing},
			plan: plan.Plan{
				Systemd: load.systemd, Kernel: k.dir, Program: r.program(), Modules: r.modules,
				Env: r.guestEnv(k), Jobs: load.jobs,
			},
		}
		if len(loads) > 1 {
			m.out = &lines{to: r.stdout, mu: &r.printing, prefix: m.name() + ": "}
		}
		all.Go(func() (err error) {
			codes[i], err = r.twice(ctx, m)
			return err
		})
	}
	err = all.Wait()
	return slices.Max(codes), err
}

// processors of a guest: emulated ones that have to share a real one wait for
// each other in turns.
func (r *ring) processors(guests int) int {
	if r.cpus > 0 {
		return r.cpus
	}
	return max(1, runtime.NumCPU()/min(r.beside, guests))
}

// twice boots again where the guest died. An emulated kernel can die of its
// emulation; of a mistake of the product's it dies again.
func (r *ring) twice(ctx context.Context, m machine) (int, error) {
	code, err := r.guest(ctx, m)
	if errors.Is(err, errNoAnswer) {
		r.say("vm: %s: %v\nvm: once more\n", m.name(), err)
		code, err = r.guest(ctx, m)
	}
	if err != nil {
		return 1, fmt.Errorf("%s: %w", m.name(), err)
	}
	return code, nil
}

func (r *ring) say(format string, args ...any) {
	r.printing.Lock()
	defer r.printing.Unlock()
	fmt.Fprintf(r.stderr, format, args...)
}

// makeDir also puts this program there, where the guest finds it by the same
// path; "go run" keeps it in a folder that may be on a file system of its own.
func (r *ring) makeDir() error {
	if err := os.MkdirAll(r.cache, 0o755); err != nil {
		return err
	}
	removeStale(r.cache)
	dir, err := os.MkdirTemp(r.cache, fmt.Sprintf("%s%d-", runPrefix, os.Getpid()))
	if err != nil {
		return err
	}
	r.dir = dir
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.program(), self, 0o755); err != nil {
		return err
	}
	return mustBeStatic(r.program())
}

const runPrefix = "job-"

// removeStale clears what killed runs left; the folder's name holds the process
// that it belonged to.
func removeStale(cache string) {
	old, _ := filepath.Glob(filepath.Join(cache, runPrefix+"*"))
	for _, dir := range old {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), runPrefix), "-")
		if _, err := os.Stat(filepath.Join("/proc", pid)); err != nil {
			_ = os.RemoveAll(dir)
		}
	}
}

func (r *ring) program() string { return filepath.Join(r.dir, "vm") }

func (r *ring) removeDir() {
	if r.dir != "" {
		_ = os.RemoveAll(r.dir)
	}
}

// The initramfs has no library to load.
func mustBeStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("this program is not static: an import brings in cgo; build it with CGO_ENABLED=0")
		}
	}
	return nil
}

// guest boots once and reports; the code is 0 only if every job's is.
func (r *ring) guest(ctx context.Context, m machine) (int, error) {
	r.say("vm: %s, %s, %d MiB\n", m.name(), m.accel, r.memory)
	report, err := m.boot(ctx)
	if err != nil {
		return 1, err
	}
	return r.judge(m, report)
}

// judge counts: a job without a result has not run, whatever was printed.
func (r *ring) judge(m machine, report plan.Report) (int, error) {
	worst := 0
	r.printing.Lock()
	defer r.printing.Unlock()
	for _, res := range report.Results {
		word := "ok"
		if res.Code != 0 {
			word = fmt.Sprintf("FAILED (exit status %d)", res.Code)
		}
		if res.Held {
			word += ", left a process that holds its output"
		}
		r.table = append(r.table, fmt.Sprintf("%-22s %-34s %6.1f s  %s", m.name(), res.Name, res.Seconds, word))
		worst = max(worst, res.Code)
	}
	fmt.Fprintf(r.stderr, "vm: kernel %s, jobs began %.1f s after power on, whole run %.0f s\n", report.Release, report.UpSeconds, m.took.Seconds())
	switch {
	case report.Error != "":
		return max(worst, 1), errors.New("guest: " + report.Error)
	case len(report.Results) != len(m.plan.Jobs):
		return max(worst, 1), fmt.Errorf("guest: %d of %d jobs have a result", len(report.Results), len(m.plan.Jobs))
	}
	return worst, nil
}

// guestEnv is what jobs need of the caller's environment, and where they are.
func (r *ring) guestEnv(k kernel) []string {
	env := []string{
		"TMPDIR=" + filepath.Join(plan.QuotaXFS, "tmp"),
		"SAGE_VM=" + k.release,
		"SAGE_VM_OUT=" + filepath.Join(plan.Share, plan.OutDir),
		"SAGE_CACHE=" + filepath.Dir(r.cache),
		"LANG=C.UTF-8",
	}
	for _, name := range []string{"PATH", "HOME", "SAGE_BIN", "SAGE_SHIM", "GOFLAGS", "GOCACHE", "GOTOOLCHAIN"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, r.env...)
}
