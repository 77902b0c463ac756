package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sage-sandbox/sage/integration/vm/guest"
	"github.com/sage-sandbox/sage/integration/vm/plan"
)

// errDied is wrapped where the guest began and did not answer.
var (
	errDied     = errors.New("guest")
	errNoAnswer = errors.New("it ended without an answer")
)

// machine is one guest, from its disks to its report.
type machine struct {
	ring    *ring
	kernel  kernel
	guest   string // which of the kernel's guests
	plan    plan.Plan
	accel   string
	timeout time.Duration
	out     io.Writer
	dir     string // of this machine, removed when it has ended
	took    time.Duration
	cpus    int
}

// boot runs the guest to its end.
func (m *machine) boot(ctx context.Context) (plan.Report, error) {
	dir, err := os.MkdirTemp(m.ring.dir, "machine-")
	if err != nil {
		return plan.Report{}, err
	}
	m.dir = dir
	defer os.RemoveAll(dir)
	if err := m.prepare(ctx); err != nil {
		return plan.Report{}, err
	}
	began := time.Now()
	err = m.qemu(ctx)
	m.took = time.Since(began)
	report, err := m.report(err)
	return report, errors.Join(err, m.saveOut())
}

// report prefers the guest's own words to how QEMU ended.
func (m *machine) report(ended error) (plan.Report, error) {
	var r plan.Report
	err := plan.Load(m.share(), plan.Answer, &r)
	switch {
	case err == nil:
		return r, nil
	case !errors.Is(err, fs.ErrNotExist):
		return r, err
	case ended == nil:
		ended = errNoAnswer
	}
	_ = plan.Load(m.share(), "partial-"+plan.Answer, &r)
	tail, console := m.consoleTail(), m.keepConsole()
	return r, fmt.Errorf("%w: %w after %.0f s and %d of %d jobs; the end of its console (all of it: %s):\n%s",
		errDied, ended, m.took.Seconds(), len(r.Results), len(m.plan.Jobs), console, tail)
}

func (m *machine) name() string    { return m.kernel.name(m.guest) }
func (m *machine) share() string   { return filepath.Join(m.dir, "share") }
func (m *machine) console() string { return filepath.Join(m.dir, "console") }

// prepare makes all that QEMU is given.
func (m *machine) prepare(ctx context.Context) error {
	if err := m.makeShare(); err != nil {
		return err
	}
	if err := plan.Save(m.share(), plan.File, m.plan); err != nil {
		return err
	}
	if err := writeInitramfs(ctx, filepath.Join(m.dir, "initramfs"), m.ring.program(), m.kernel); err != nil {
		return err
	}
	return m.makeDisks(ctx)
}

// makeShare has a folder where jobs leave files.
func (m *machine) makeShare() error {
	out := filepath.Join(m.share(), plan.OutDir)
	return os.MkdirAll(out, 0o755)
}

// saveOut copies what the jobs left to where the caller wants it.
func (m *machine) saveOut() error {
	if m.ring.out == "" {
		return nil
	}
	to := filepath.Join(m.ring.out, strings.ReplaceAll(m.name(), " ", "-"))
	return errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(filepath.Join(m.share(), plan.OutDir))))
}

// The guest formats nothing: that is thirteen times slower there.
func (m *machine) makeDisks(ctx context.Context) error {
	for _, d := range []struct {
		name string
		size int64
		mkfs []string
	}{
		{"quota", int64(m.ring.disk) << 30, []string{"mkfs.xfs", "-q"}},
		{"plain", 1 << 30, []string{"mkfs.xfs", "-q"}},
		{"swap", 512 << 20, []string{"mkswap", "-q"}},
	} {
		path := filepath.Join(m.dir, d.name)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Truncate(d.size), f.Close()); err != nil {
			return err
		}
		if _, err := output(ctx, "/", d.mkfs[0], append(d.mkfs[1:], path)...); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) arguments() []string {
	disk := func(name string) []string {
		// What the host would have after a power cut is of no interest.
		return []string{"-drive", "file=" + filepath.Join(m.dir, name) + ",format=raw,if=virtio,cache=unsafe,discard=unmap"}
	}
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none",
		"-machine", "pc", "-smp", strconv.Itoa(m.cpus), "-m", strconv.Itoa(m.ring.memory) + "M",
		"-kernel", m.kernel.image(), "-initrd", filepath.Join(m.dir, "initramfs"), "-append", m.commandLine(),
		"-serial", "file:" + m.console(),
		"-device", "virtio-serial", "-chardev", "file,id=out,path=/proc/self/fd/1", "-device", "virtserialport,chardev=out,name=" + plan.OutTag,
		"-virtfs", "local,path=/,mount_tag=" + plan.RootTag + ",security_model=none,multidevs=remap,readonly=on",
		"-virtfs", "local,path=" + m.share() + ",mount_tag=" + plan.TagOf + ",security_model=none,multidevs=remap",
	}
	if m.accel == "kvm" {
		args = append(args, "-accel", "kvm", "-cpu", "max")
	} else {
		args = append(args, "-accel", "tcg,thread=multi", "-cpu", "max,la57=off,-smap,-smep")
	}
	for _, name := range []string{"quota", "plain", "swap"} {
		args = append(args, disk(name)...)
	}
	return args
}

// commandLine makes the kernel end the guest where it would otherwise go on
// half broken: an oops is a failed run.
func (m *machine) commandLine() string {
	line := "console=ttyS0 quiet loglevel=4 oops=panic panic=-1 random.trust_cpu=on"
	if m.accel == "tcg" {
		// An emulator speculates nothing. Retpolines, and a fifth level of page
		// tables above, cost it a quarter of its speed. It keeps translated code by
		// address: with random ones each process has its libraries translated anew,
		// and /bin/true takes 71 ms instead of 28.
		line += " spectre_v2=off norandmaps"
	}
	if m.plan.Systemd {
		line += " systemd.unit=" + guest.Target + " systemd.unified_cgroup_hierarchy=1 fstab=no rd.systemd.gpt_auto=no systemd.gpt_auto=no" +
			" systemd.log_target=console systemd.show_status=no"
	}
	return line
}

// qemu returns when the guest has powered off, or kills it at the bound.
func (m *machine) qemu(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, m.timeout, fmt.Errorf("it was killed at its bound of %v", m.timeout))
	defer cancel()
	// The death signal is tied to the thread that forked, not to the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", m.arguments()...)
	// A pipe, not our own descriptor, which QEMU would make non-blocking for
	// everyone who has it. QEMU opens it as a file: where the port is its standard
	// input as well, the end of that is a hang-up, and the guest's writes stop.
	cmd.Stdout = struct{ io.Writer }{m.out}
	var said strings.Builder
	cmd.Stderr = &said
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	err := cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("qemu: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

// consoleTail is what a person needs first: a panic's own line is some forty
// above the end of its trace.
func (m *machine) consoleTail() string {
	text, err := os.ReadFile(m.console())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

// keepConsole saves the console from the folder that is about to go.
func (m *machine) keepConsole() string {
	path := filepath.Join(m.ring.cache, "console-"+strings.ReplaceAll(strings.TrimPrefix(m.name(), "linux "), " ", "-"))
	if err := os.Rename(m.console(), path); err != nil {
		return "lost: " + err.Error()
	}
	return path
}
