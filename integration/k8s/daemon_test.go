//go:build k8s

package k8s

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// daemon is one of the node's servers.
type daemon struct {
	name  string
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// startDaemon does not wait until it answers: in emulation each takes many
// seconds to get there, and they can do so at the same time.
func (n *node) startDaemon(name string, args ...string) error {
	log, err := os.Create(filepath.Join(n.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	d := &daemon{name: name, cmd: n.command(context.Background(), name, args...), log: log.Name(), ended: make(chan struct{})}
	d.cmd.Stdout, d.cmd.Stderr = log, log
	// Less time for the garbage collectors, of which there is too little here.
	d.cmd.Env = append(d.cmd.Env, "GOGC=300")
	if err := d.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = d.cmd.Wait()
		close(d.ended)
	}()
	n.daemons = append(n.daemons, d)
	return nil
}

// alive is nil while the daemon runs.
func (d *daemon) alive() error {
	select {
	case <-d.ended:
		return fmt.Errorf("%s has ended (%v); the end of its log:\n%s", d.name, d.cmd.ProcessState, d.tail(15))
	default:
		return nil
	}
}

func (d *daemon) tail(lines int) string {
	text, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.ended:
	case <-time.After(10 * time.Second):
		_ = d.cmd.Process.Kill()
		<-d.ended
	}
}
