//go:build engines

package engines

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// daemon is one engine's server.
type daemon struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// startDaemon starts a program of the ring and waits until ready says yes.
func (r *ring) startDaemon(name string, ready *exec.Cmd, args ...string) (*daemon, error) {
	log, err := os.OpenFile(r.path(name+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := r.program(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	d := &daemon{cmd: cmd, log: log.Name(), ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(d.ended)
	}()
	r.running = append(r.running, d)
	return d, d.await(ready)
}

// program is a command with the ring's search path, both for finding it and
// for what it starts.
func (r *ring) program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(r.find(name), args...)
	cmd.Env = append(os.Environ(), "PATH="+r.searchPath(), "TMPDIR="+r.dir, "HOME="+r.dir,
		"DOCKER_CONFIG="+r.path("docker-config"), "XDG_RUNTIME_DIR="+r.dir,
		"CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1")
	cmd.Dir = r.dir
	return cmd
}

// find gives the full path of a program, or its bare name for an error that
// says what was not found.
func (r *ring) find(name string) string {
	for _, dir := range filepath.SplitList(r.searchPath()) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return path
		}
	}
	return name
}

// await repeats the client command until it succeeds.
func (d *daemon) await(ready *exec.Cmd) error {
	ok := poll(60*time.Second, func() bool {
		try := *ready
		return d.alive() && try.Run() == nil || !d.alive()
	})
	if ok && d.alive() {
		return nil
	}
	return fmt.Errorf("%s does not answer; the end of its log:\n%s", d.cmd.Path, d.tail(30))
}

func (d *daemon) alive() bool {
	select {
	case <-d.ended:
		return false
	default:
		return true
	}
}

// tail is the end of the log.
func (d *daemon) tail(lines int) string {
	text, _ := os.ReadFile(d.log)
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// grep lists the lines of the log that hold a phrase.
func (d *daemon) grep(phrase string) []string {
	text, _ := os.ReadFile(d.log)
	var found []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, phrase) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// stop asks, and after a while forces.
func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.ended:
	case <-time.After(30 * time.Second):
		_ = d.cmd.Process.Kill()
		<-d.ended
	}
}
