// Package guest is what runs inside the virtual machine: its first process and
// the one that runs the jobs of a plan. It is no general init: it makes one
// kind of machine, runs the plan, and powers off.
package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/vm/plan"
)

// Boot is the first process of the initramfs. It does not return.
func Boot(ctx context.Context) {
	// The kernel gives its first process none that holds sbin.
	err := os.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	if err == nil {
		err = boot(ctx)
	}
	// Only the console is sure to be there.
	fmt.Fprintln(os.Stderr, "sage-vm: boot:", err)
	powerOff()
}

func boot(ctx context.Context) error {
	if err := inOrder(
		func() error { return mountAll(initramfsMounts) },
		func() error { return loadModules("/modules") },
		enterHostRoot,
	); err != nil {
		return err
	}
	var p plan.Plan
	if err := plan.Load(plan.Share, plan.File, &p); err != nil {
		return err
	}
	err := serve(ctx, p)
	return errors.Join(err, plan.Save(plan.Share, plan.Answer, plan.Report{Error: err.Error()}))
}

// serve returns only when something went wrong.
func serve(ctx context.Context, p plan.Plan) error {
	if err := furnish(ctx, p); err != nil {
		return err
	}
	if p.Systemd {
		return execSystemd(p)
	}
	return runStage(p)
}

// loadModules loads what the host chose, in the host's order. They are there
// uncompressed: kernels of Debian 12 cannot unpack a module themselves.
func loadModules(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		image, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := unix.InitModule(image, ""); err != nil {
			return fmt.Errorf("load %s: %w", e.Name(), err)
		}
		// The initramfs is memory.
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// enterHostRoot makes the host's root, under a layer of memory, the root.
func enterHostRoot() error {
	if err := mountAll(rootMounts); err != nil {
		return err
	}
	for _, dir := range []string{"/dev", "/proc", "/sys"} {
		if err := unix.Mount(dir, "/newroot"+dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", dir, err)
		}
	}
	if err := unix.Chdir("/newroot"); err != nil {
		return err
	}
	// pivot_root(2) does not work on an initramfs; this is what switch_root does.
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return mountAll(earlyMounts)
}

// powerOff ends the machine; there is nothing sensible to do if it fails.
func powerOff() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

// furnish makes what both kinds of guest have before their jobs.
func furnish(ctx context.Context, p plan.Plan) error {
	return inOrder(
		func() error { return linkModules(p.Kernel) },
		removeForeign,
		func() error { return name("sage-vm") },
		func() error { return modprobe(ctx, slices.Concat(guestModules, p.Modules)) },
		func() error { return mountAll(diskMounts) },
		// Made by the host's umask it could not serve as anybody's TMPDIR.
		func() error { return makeDir(filepath.Join(plan.QuotaXFS, "tmp"), 0o1777) },
		func() error { return command(ctx, "swapon", "/dev/vdc") },
		func() error { return command(ctx, "ip", "link", "set", "lo", "up") },
	)
}

// removeForeign removes what is true of the host alone. What a test finds in
// /etc/sage it has put there; and the host may be a container, of which the
// marks would make systemd and others behave as in one.
func removeForeign() error {
	for _, path := range []string{"/etc/sage", "/.dockerenv", "/run/.containerenv"} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
