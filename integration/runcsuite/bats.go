package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The longest file takes under a minute on a quiet machine of two cores. There
// is no bound per test: bats's own (BATS_TEST_TIMEOUT) is a background job of
// the test's shell, and tests that say "wait" would wait for it.
const fileTimeout = 5 * time.Minute

// contender is one runtime, with one host configuration or none.
type contender struct{ name, path, host string }

// runtimes are the paths of the two programs. runc in the place of sage is given
// no host configuration, which it does not know.
type runtimes struct {
	runc, sage string
	sageIsRunc bool
}

func (r runtimes) contender(p profile) contender {
	c := contender{name: "sage", path: r.sage, host: p.host}
	if p.name != "compat" {
		c.name = "policy-" + p.name
	}
	if r.sageIsRunc {
		c.host = ""
	}
	return c
}

// outcomeOf is what one contender's run came to.
type outcomeOf struct {
	report
	name    string
	took    time.Duration
	log     string
	cleaned []string // what its tests left and the runner removed
}

func findRuntimes(ctx context.Context, o options) (runtimes, error) {
	runc, _, err := findRuntime(ctx, o.runc)
	if err != nil {
		return runtimes{}, err
	}
	sage, version, err := findRuntime(ctx, o.sage)
	return runtimes{runc, sage, strings.HasPrefix(version, "runc ")}, err
}

func findRuntime(ctx context.Context, name string) (path, version string, err error) {
	path, err = filepath.Abs(name)
	if err != nil {
		return "", "", err
	}
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		return "", "", fmt.Errorf("%s --version: %w %s", path, err, out)
	}
	return path, string(out), nil
}

// install copies a contender, since bin/ may be built again during a run, and
// calls the copy runc: the test for leaked descriptors allows the runtime's own
// file by that name.
func (s *suite) install(c *contender) error {
	dir := filepath.Join(s.dir, "bin", c.name)
	data, err := os.ReadFile(c.path)
	if err != nil {
		return err
	}
	c.path = filepath.Join(dir, "runc")
	if c.host == "" {
		return writeProgram(c.path, data)
	}
	binary, config := filepath.Join(dir, "binary", "runc"), filepath.Join(dir, "host.yaml")
	return errors.Join(
		writeProgram(binary, data),
		os.WriteFile(config, []byte(c.host), 0o644),
		writeProgram(c.path, wrapper(binary, config)),
	)
}

// wrapper is a script that hands on the name under which it was called, for the
// runtime says it in its messages. sh cannot do that.
func wrapper(binary, config string) []byte {
	return fmt.Appendf(nil, "#!/bin/bash\nexec -a \"$0\" %s --config %s \"$@\"\n", binary, config)
}

func writeProgram(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o755)
}

// runBounded runs every file with one contender and leaves the host as it was
// before, whatever the tests did. It installs the contender.
func (s *suite) runBounded(ctx context.Context, c *contender, limit time.Duration) (outcomeOf, error) {
	if err := s.install(c); err != nil {
		return outcomeOf{}, err
	}
	return s.runInstalled(ctx, *c, limit)
}

func (s *suite) runInstalled(ctx context.Context, c contender, limit time.Duration) (outcomeOf, error) {
	o := outcomeOf{name: c.name, log: filepath.Join(s.cache, c.name+".tap")}
	scratch := filepath.Join(s.dir, "tmp")
	if err := errors.Join(os.Mkdir(scratch, 0o755), os.Chmod(scratch, 0o755)); err != nil {
		return o, err
	}
	log, err := freshFile(o.log)
	if err != nil {
		return o, err
	}
	defer log.Close()
	before := lookAtHost()
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, file := range s.files {
		s.runFile(bounded, c, file, scratch, log)
		o.cleaned = append(o.cleaned, sweep(context.WithoutCancel(ctx), c, scratch, before)...)
	}
	o.took = time.Since(start)
	if err := ctx.Err(); err != nil {
		return o, err
	}
	if _, err := log.Seek(0, io.SeekStart); err != nil {
		return o, err
	}
	o.report, err = parseTAP(log)
	return o, errors.Join(err, os.RemoveAll(scratch))
}

// freshFile replaces the last run's log, so that whoever still reads it keeps it.
func freshFile(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
}

// runFile runs one bats file on a terminal of its own. An error of bats needs
// no report: the log then lacks tests, and the comparison says so by name.
func (s *suite) runFile(ctx context.Context, c contender, file, scratch string, log *os.File) {
	begun, _ := log.Seek(0, io.SeekCurrent) // the worst is a file that is waited for
	fmt.Fprintln(log, fileMark+file)
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	defer endReported(ctx, cancel, log.Name(), begun)()
	start := time.Now()
	// A terminal on which nobody types. With an end of file script would type
	// that, and tests would find it in the output of their containers.
	stdin, keyboard, err := os.Pipe()
	if err != nil {
		return
	}
	defer stdin.Close()
	defer keyboard.Close()
	cmd := exec.CommandContext(ctx, "script", "--quiet", "--return", "--flush", "--command", "bats --tap "+file, "/dev/null")
	cmd.Dir = s.integration(".")
	cmd.Env = append(suiteEnv(os.Environ(), c.path, scratch), s.mirrorEnv()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, log, log
	// Without it, Wait would wait for containers that hold our pipe open.
	cmd.WaitDelay = 5 * time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = runReaping(cmd)
	fmt.Fprintf(s.stderr, "%s  %-28s %5.1fs  %s\n", c.name, file, time.Since(start).Seconds(), ended(err))
}

// runReaping is cmd.Run with the orphans of its tests reaped meanwhile.
func runReaping(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		reapUntil(stop, cmd.Process.Pid)
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	return cmd.Wait()
}

func ended(err error) string {
	if err == nil {
		return "all ok"
	}
	return err.Error()
}

// suiteEnv takes out whatever would make the suite test another mode than the
// native one as root, with the cgroupfs driver.
func suiteEnv(env []string, runtime, scratch string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(name, "BATS_") || slices.Contains([]string{
			"RUNC", "ROOT", "RUNC_USE_SYSTEMD", "ROOTLESS_FEATURES", "TMPDIR", "NOTIFY_SOCKET", "LISTEN_FDS", "GOFLAGS",
		}, name)
	})
	return append(env, "RUNC="+runtime, tmpdirVar(scratch))
}

// tmpdirVar is also the mark by which sweep knows the suite's own processes.
func tmpdirVar(scratch string) string { return "TMPDIR=" + scratch }
