package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// lab is what the contenders share: a folder, a root file system, bundles.
type lab struct {
	dir string
	// state is on a tmpfs, as /run is where engines keep it.
	state string
	runc  *contender
	// sage does as runc does; policy is the same binary under the profile sage, and
	// agent under the profile agent with a proxy.
	sage, policy, agent *contender
}

func (l *lab) contenders() []*contender { return []*contender{l.runc, l.sage, l.policy, l.agent} }

// newLab makes the folder and all that is in it.
func newLab(ctx context.Context, o options) (l *lab, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("containers that compare with runc's need root")
	}
	// A detached container's init is then our child, and its end an event.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	dir, err := os.MkdirTemp("", "sage-bench-")
	if err != nil {
		return nil, err
	}
	state, err := stateFolder()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	l = &lab{dir: dir, state: state}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir), os.RemoveAll(state))
		}
	}()
	if err := l.makeContenders(o); err != nil {
		return nil, err
	}
	return l, l.makeBundles(ctx)
}

// stateFolder is on a tmpfs: on a disk the journal's price of a file is measured
// too, which no installation pays.
func stateFolder() (string, error) {
	for _, dir := range []string{"/run", "/dev/shm"} {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err == nil && fs.Type == unix.TMPFS_MAGIC {
			return os.MkdirTemp(dir, "sage-bench-")
		}
	}
	return "", errors.New("neither /run nor /dev/shm is a tmpfs, where the state of containers belongs: mount one")
}

// allowlist gives every container a proxy that allows one host.
const allowlist = `version: 1
default_profile: agent
profiles:
  sage: {defaults: {resources: {require_hard_limits: false}}}
  agent:
    defaults:
      resources: {require_hard_limits: false}
      network: {mode: allowlist, allowed_hosts: [allowed.example.com]}
`

// makeContenders copies the binaries to one folder: on different file systems
// the kernel may do more work for one than for the other. Runc, which is all of
// them under -self, knows no host configuration.
func (l *lab) makeContenders(o options) (err error) {
	if l.runc, err = newContender(l, "runc", o.runc); err != nil {
		return err
	}
	if l.sage, err = newContender(l, "sage", o.sage); err != nil {
		return err
	}
	if l.policy, err = newContender(l, "policy", o.sage); err != nil {
		return err
	}
	if l.agent, err = newContender(l, "agent", o.sage); err != nil || o.self {
		return err
	}
	// The program of the bridge and the proxy is looked for beside the runtime.
	egress := "sage-egress"
	return errors.Join(l.sage.underHost(harness.Compat), l.policy.underHost(harness.SoftSage), l.agent.underHost(allowlist),
		copyFile(filepath.Join(filepath.Dir(l.agent.bin), egress), filepath.Join(filepath.Dir(o.sage), egress)))
}

func (l *lab) bundle(name string) string { return filepath.Join(l.dir, name) }

// makeBundles takes the configuration that runc itself writes, for both.
func (l *lab) makeBundles(ctx context.Context) error {
	rootfs := filepath.Join(l.dir, "rootfs")
	if err := unpack(ctx, rootfs); err != nil {
		return err
	}
	if _, err := l.runc.spawn(ctx, "spec", "--bundle", l.dir); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(l.dir, "config.json"))
	if err != nil {
		return err
	}
	plain := errors.Join(
		l.writeBundle("true", text, "/bin/true"),
		l.writeBundle("sleep", text, "/bin/sleep", "86400"),
		l.writeBundle("ask", text, "/bin/sh", "-c", "wget -O /dev/null http://denied.example.com/ 2>&1; true"),
	)
	return errors.Join(plain, l.makeLoops(ctx, text))
}

func (l *lab) writeBundle(name string, text []byte, argv ...string) error {
	config, err := edit(text, filepath.Join(l.dir, "rootfs"), argv)
	if err != nil {
		return err
	}
	if err := os.Mkdir(l.bundle(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(l.bundle(name), "config.json"), config, 0o600)
}

// edit keeps all of a configuration but its command, terminal and root.
func edit(text []byte, rootfs string, argv []string) ([]byte, error) {
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	process, ok := config["process"].(map[string]any)
	if !ok {
		return nil, errors.New("config.json has no process")
	}
	process["args"], process["terminal"] = argv, false
	config["root"] = map[string]any{"path": rootfs, "readonly": true}
	return json.Marshal(config)
}

// unpack makes the root file system, from the archive that the rings use too.
func unpack(ctx context.Context, rootfs string) error {
	archive := filepath.Join(cacheDir(), "rootfs", "busybox.tar")
	if _, err := os.Stat(archive); errors.Is(err, fs.ErrNotExist) {
		if err := command(ctx, "sh", filepath.Join("integration", "rootfs", "build.sh"), "busybox"); err != nil {
			return err
		}
	}
	if err := os.Mkdir(rootfs, 0o755); err != nil {
		return err
	}
	return command(ctx, "tar", "-xpf", archive, "-C", rootfs)
}

func command(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return nil
}

// close deletes what containers there are, the sleepers as a rule, and the
// folder. An interrupt ends the measuring and not this.
func (l *lab) close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, c := range l.contenders() {
		errs = append(errs, c.deleteAll(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir), os.RemoveAll(l.state))...)
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
