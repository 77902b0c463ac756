package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Daemon is a server that a test started and that ends with the test.
type Daemon struct {
	Log   string // path of all that it printed
	cmd   *exec.Cmd
	ended chan struct{}
}

// daemonWait is for emulated machines, where dockerd needs half a minute.
const daemonWait = 2 * time.Minute

// startDaemon starts a program and waits until ready succeeds.
func startDaemon(tb testing.TB, cmd *exec.Cmd, log string, ready func() error) *Daemon {
	tb.Helper()
	d := &Daemon{Log: log}
	tb.Cleanup(d.Stop)
	d.run(tb, cmd, ready)
	return d
}

// run is for the first process, and for a later one after [Daemon.Kill]: whoever
// registered to stop the daemon stops the one that is there then.
func (d *Daemon) run(tb testing.TB, cmd *exec.Cmd, ready func() error) {
	tb.Helper()
	f, err := os.OpenFile(d.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	if err := StartCommand(cmd); err != nil {
		tb.Fatalf("harness: %v", err)
	}
	ended := make(chan struct{})
	d.cmd, d.ended = cmd, ended
	go func() {
		_ = WaitCommand(cmd)
		close(ended)
	}()
	if err := d.await(ready); err != nil {
		tb.Fatalf("harness: %s: %v; the end of its log:\n%s", filepath.Base(cmd.Path), err, d.Tail(30))
	}
}

func (d *Daemon) await(ready func() error) error {
	var err error
	for end := time.Now().Add(daemonWait); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		select {
		case <-d.ended:
			return fmt.Errorf("it ended: %s", d.cmd.ProcessState)
		default:
		}
		if err = ready(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("it does not answer: %w", err)
}

// Stop asks it to end, and after a while forces it.
func (d *Daemon) Stop() {
	if d.cmd == nil {
		return // it never began
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.ended:
	case <-time.After(time.Minute):
		d.Kill()
	}
}

// Kill ends it as a crash would.
func (d *Daemon) Kill() {
	_ = d.cmd.Process.Kill()
	<-d.ended
}

// Tail is the end of its log.
func (d *Daemon) Tail(lines int) string {
	text, _ := os.ReadFile(d.Log)
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// enginePath is the search path of engines: their own shims are found by name.
func enginePath(tb testing.TB) string {
	tb.Helper()
	return strings.Join([]string{
		filepath.Dir(SageShim(tb)), filepath.Join(Cache(tb), "peers", "bin"), filepath.Join(Cache(tb), "client"), os.Getenv("PATH"),
	}, ":")
}

// engineCommand is a program of an engine, with nothing of the user's own
// configuration.
func engineCommand(tb testing.TB, dir, program string, args ...string) *exec.Cmd {
	tb.Helper()
	path := enginePath(tb)
	cmd := exec.Command(findIn(tb, path, program), args...)
	cmd.Env = append(os.Environ(), "PATH="+path, "HOME="+dir, "DOCKER_CONFIG="+filepath.Join(dir, "client"), "XDG_RUNTIME_DIR="+dir)
	return cmd
}

func findIn(tb testing.TB, path, program string) string {
	tb.Helper()
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, program)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file
		}
	}
	tb.Fatalf("harness: no program %s: run \"make peers\"", program)
	return ""
}
