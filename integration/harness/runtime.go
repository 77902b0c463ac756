package harness

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Timeout is how long one command of a runtime may take. Every command here
// ends within a second when all is well.
const Timeout = 30 * time.Second

// Runtime is a runtime's binary with a state root of its own.
type Runtime struct {
	Bin  string
	Root string
	// Config is the host configuration that every command is given, none if
	// empty: see HostFile.
	Config string
	// Env is added to the environment of every command, Global to its flags
	// before the verb.
	Env, Global []string
	// Patience is how long one command may take, [Timeout] if 0.
	Patience time.Duration
}

// NewRuntime returns the runtime under test with a fresh state root and runc's
// own rules. When the test ends its containers are deleted by force, and after
// that nothing may be left on the host.
func NewRuntime(tb testing.TB) *Runtime {
	tb.Helper()
	return NewRuntimeWith(tb, Compat)
}

// NewRuntimeWith is NewRuntime under another host configuration: SoftSage, or
// any text of one.
func NewRuntimeWith(tb testing.TB, hostText string) *Runtime {
	tb.Helper()
	r := &Runtime{Bin: Sage(tb), Root: filepath.Join(TempDir(tb), "root")}
	r.Config = ConfigFor(tb, r.Bin, hostText)
	if err := os.Mkdir(r.Root, 0o700); err != nil {
		tb.Fatalf("harness: %v", err)
	}
	Watch(tb, r.Scope())
	// Without the test's own flags: what they name may be gone already.
	plain := &Runtime{Bin: r.Bin, Root: r.Root, Config: r.Config}
	tb.Cleanup(func() { plain.deleteAll(tb) })
	return r
}

// Scope is what Snapshot should look at for this runtime.
func (r *Runtime) Scope() Scope { return Scope{Roots: []string{r.Root}} }

// deleteAll is the user's remedy; a container that resists it fails the test.
func (r *Runtime) deleteAll(tb testing.TB) {
	tb.Helper()
	entries, err := os.ReadDir(r.Root)
	if err != nil {
		tb.Errorf("harness: %v", err)
	}
	for _, e := range entries {
		if res := r.Run(tb, "delete", "--force", e.Name()); res.Code != 0 {
			tb.Errorf("delete --force %s: %s", e.Name(), res)
		}
	}
}

var lastID atomic.Int64

// NewID returns an id that no other container on the machine has.
func NewID() string {
	return fmt.Sprintf("%s-%d", Mark(), lastID.Add(1))
}

// Result is a command that ended.
type Result struct {
	Stdout, Stderr string
	// Code is the exit status, or -1 after a signal, which is then in Signal.
	Code   int
	Signal syscall.Signal
	// TimedOut says that the command was killed for taking too long.
	TimedOut bool
	Took     time.Duration
	// MaxRSS is the most memory that the command had resident, in bytes. It is at
	// least what the test process had when it forked (execve(2) keeps the mark).
	MaxRSS int64
}

// String puts a result in one line of a failure message.
func (r Result) String() string {
	return fmt.Sprintf("exit status %d, signal %d, timed out %v, stdout %q, stderr %q",
		r.Code, r.Signal, r.TimedOut, cut(r.Stdout), cut(r.Stderr))
}

// cut keeps a runtime that prints its whole input from filling the log.
func cut(s string) string {
	const most = 600
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// Run runs one command of the runtime to its end.
func (r *Runtime) Run(tb testing.TB, args ...string) Result {
	tb.Helper()
	return r.Start(tb, args...).Wait(tb)
}

// Must is Run for a command that has to succeed.
func (r *Runtime) Must(tb testing.TB, args ...string) Result {
	tb.Helper()
	res := r.Run(tb, args...)
	if res.Code != 0 {
		tb.Fatalf("%s: %s", strings.Join(args, " "), res)
	}
	return res
}

// Running is a command that was started.
type Running struct {
	Cmd    *exec.Cmd
	cancel context.CancelFunc
	ctx    context.Context
	dir    string
	since  time.Time
}

// Start begins a command of the runtime.
func (r *Runtime) Start(tb testing.TB, args ...string) *Running {
	tb.Helper()
	return r.StartWith(tb, nil, args...)
}

// StartIn begins a command in a working folder.
func (r *Runtime) StartIn(tb testing.TB, dir string, args ...string) *Running {
	tb.Helper()
	return r.StartWith(tb, func(cmd *exec.Cmd) { cmd.Dir = dir }, args...)
}

// StartWith begins a command after edit changed it: its files, its standard
// input, its user.
func (r *Runtime) StartWith(tb testing.TB, edit func(*exec.Cmd), args ...string) *Running {
	tb.Helper()
	run := &Running{dir: TempDir(tb)}
	run.ctx, run.cancel = context.WithTimeout(context.Background(), cmp.Or(r.Patience, Timeout))
	run.Cmd = exec.CommandContext(run.ctx, r.Bin, r.command(args)...)
	run.Cmd.Env = append(os.Environ(), r.Env...)
	// Files and not pipes: a detached container keeps the runtime's standard
	// output, and a pipe would make Wait wait for the container.
	out, errs := create(tb, run.dir, "stdout"), create(tb, run.dir, "stderr")
	defer out.Close()
	defer errs.Close()
	run.Cmd.Stdout, run.Cmd.Stderr = out, errs
	if edit != nil {
		edit(run.Cmd)
	}
	run.since = time.Now()
	if err := StartCommand(run.Cmd); err != nil {
		run.cancel()
		tb.Fatalf("harness: %v", err)
	}
	tb.Cleanup(run.abandon)
	return run
}

// command is the whole command line, global flags first.
func (r *Runtime) command(args []string) []string {
	flags := []string{"--root", r.Root}
	if r.Config != "" {
		flags = append(flags, "--config", r.Config)
	}
	return slices.Concat(flags, r.Global, args)
}

// create opens for appending: payload and runtime write to the same file.
func create(tb testing.TB, dir, name string) *os.File {
	tb.Helper()
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	return f
}

// Wait waits for the command's end and returns what came of it.
func (run *Running) Wait(tb testing.TB) Result {
	tb.Helper()
	_ = WaitCommand(run.Cmd) // The exit status below says the same.
	res := Result{Took: time.Since(run.since), TimedOut: run.ctx.Err() != nil}
	run.cancel()
	res.Stdout, res.Stderr = run.Stdout(tb), run.Stderr(tb)
	state := run.Cmd.ProcessState
	res.Code = state.ExitCode()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		res.Signal = ws.Signal()
	}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		res.MaxRSS = usage.Maxrss << 10
	}
	return res
}

// abandon ends a command whose test failed before it waited.
func (run *Running) abandon() {
	if run.Cmd.ProcessState == nil {
		run.Kill()
		_ = WaitCommand(run.Cmd)
		run.cancel()
	}
}

// Kill ends the runtime's own process and nothing else, as a daemon that dies
// takes none of its children along.
func (run *Running) Kill() {
	_ = run.Cmd.Process.Kill()
}

// Stdout returns what was printed so far, by a detached container too.
func (run *Running) Stdout(tb testing.TB) string {
	tb.Helper()
	return run.read(tb, "stdout")
}

// Stderr is Stdout for the standard error.
func (run *Running) Stderr(tb testing.TB) string {
	tb.Helper()
	return run.read(tb, "stderr")
}

func (run *Running) read(tb testing.TB, name string) string {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(run.dir, name))
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	return string(data)
}

// Eventually waits until ok holds and fails the test if it never does.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	tb.Fatalf("waited ten seconds: %s", what)
}
