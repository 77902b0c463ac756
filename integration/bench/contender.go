package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sample is what one command cost: the time that a user waits, and the
// processor time of the command and the children it waited for, which other
// processes on the machine disturb less.
type sample struct {
	wall, cpu time.Duration
}

func (s sample) plus(t sample) sample { return sample{s.wall + t.wall, s.cpu + t.cpu} }

// contender is one of the two that are compared, with a state folder of its own.
type contender struct {
	lab       *lab
	name      string // what it is here, whatever the binary
	bin, root string
	flags     []string // global ones, before each command
	stderr    *os.File
	count     int
}

func newContender(l *lab, name, bin string) (*contender, error) {
	// Not in one folder, and not one in the other, as no installation has them:
	// both runtimes then seal their binary by a copy, whose cost is its size, and
	// not by an overlay of the two.
	r := &contender{lab: l, name: name, bin: filepath.Join(l.dir, "bin-"+name, name), root: filepath.Join(l.state, name+"-root")}
	if err := os.Mkdir(filepath.Dir(r.bin), 0o755); err != nil {
		return nil, err
	}
	if err := copyFile(r.bin, bin); err != nil {
		return nil, err
	}
	if err := os.Mkdir(r.root, 0o700); err != nil {
		return nil, err
	}
	var err error
	r.stderr, err = os.OpenFile(filepath.Join(l.dir, name+"-stderr"), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	return r, err
}

// underHost makes every command of the contender use a host configuration.
func (r *contender) underHost(text string) error {
	config := r.bin + ".yaml"
	r.flags = []string{"--config", config}
	return os.WriteFile(config, []byte(text), 0o600)
}

// prefix tells the containers of one run and one runtime from all others.
func (r *contender) prefix() string { return fmt.Sprintf("bench-%d-%s-", os.Getpid(), r.name) }

func (r *contender) newID() string {
	r.count++
	return r.prefix() + strconv.Itoa(r.count)
}

// spawn runs one command of the runtime and times it. Standard error is a file
// and not a pipe: a detached container inherits it, and would keep a pipe open.
//
// An interrupt takes effect between commands: of one that was killed half way,
// a process may be left that nobody can clean up after.
func (r *contender) spawn(ctx context.Context, args ...string) (sample, error) {
	return r.spawnTo(ctx, nil, args...)
}

// spawnTo is spawn with the container's standard output in a file.
func (r *contender) spawnTo(ctx context.Context, stdout *os.File, args ...string) (sample, error) {
	if err := ctx.Err(); err != nil {
		return sample{}, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), r.bin, slices.Concat([]string{"--root", r.root}, r.flags, args)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // out of the terminal's reach
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stderr = r.stderr
	if stdout != nil { // a nil file in the interface would be a file
		cmd.Stdout = stdout
	}
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if err != nil {
		return sample{}, fmt.Errorf("%s %s: %w: %s", r.name, strings.Join(args, " "), err, r.said())
	}
	return sample{wall, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
}

// said is the end of what the runtime complained of.
func (r *contender) said() []byte {
	text, _ := os.ReadFile(r.stderr.Name())
	return bytes.TrimSpace(text[max(0, len(text)-600):])
}

// output runs a command for what it, or its container, prints.
func (r *contender) output(ctx context.Context, args ...string) (string, error) {
	out, err := os.CreateTemp(r.lab.dir, "stdout-")
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	if _, err := r.spawnTo(ctx, out, args...); err != nil {
		return "", err
	}
	text, err := os.ReadFile(out.Name())
	return strings.TrimSpace(string(text)), err
}

func (r *contender) deleteAll(ctx context.Context) error {
	entries, err := os.ReadDir(r.root)
	for _, e := range entries {
		if e.IsDir() {
			_, derr := r.spawn(ctx, "delete", "--force", e.Name())
			err = errors.Join(err, derr)
		}
	}
	return errors.Join(err, r.stderr.Close())
}
