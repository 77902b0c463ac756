package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// guestModules are what dockerd, containerd's CNI and the tests use and what
// the kernel does not always ask for by itself.
var guestModules = []string{
	"overlay", "loop", "veth", "bridge", "br_netfilter", "dummy",
	"nf_nat", "nf_conntrack", "nf_conntrack_netlink", "nft_compat", "nft_chain_nat",
	"ip_tables", "iptable_nat", "iptable_filter", "ip6_tables", "ip6table_nat", "ip6table_filter",
	"xt_addrtype", "xt_conntrack", "xt_comment", "xt_mark", "xt_multiport", "xt_MASQUERADE", "xt_nat", "xt_REDIRECT",
}

// linkModules puts the kernel's own modules where modprobe looks, which the
// kernel itself starts too.
func linkModules(kernel string) error {
	release, err := release()
	if err != nil {
		return err
	}
	if err := os.MkdirAll("/lib/modules", 0o755); err != nil {
		return err
	}
	link := filepath.Join("/lib/modules", release)
	// The host may run this very kernel.
	if err := os.RemoveAll(link); err != nil {
		return err
	}
	return os.Symlink(filepath.Join(kernel, "lib/modules", release), link)
}

func release() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// modprobe loads them in one go: a process costs 50 ms in emulation.
func modprobe(ctx context.Context, modules []string) error {
	return command(ctx, "modprobe", append([]string{"-a"}, modules...)...)
}

func name(host string) error {
	if err := os.WriteFile("/etc/hostname", []byte(host+"\n"), 0o644); err != nil {
		return err
	}
	hosts := "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 " + host + "\n"
	if err := os.WriteFile("/etc/hosts", []byte(hosts), 0o644); err != nil {
		return err
	}
	return unix.Sethostname([]byte(host))
}

// deviceLinks are what udev or an init makes besides the device nodes.
func deviceLinks() error {
	for _, l := range [][2]string{
		{"/proc/self/fd", "/dev/fd"},
		{"/proc/self/fd/0", "/dev/stdin"},
		{"/proc/self/fd/1", "/dev/stdout"},
		{"/proc/self/fd/2", "/dev/stderr"},
		{"/proc/kcore", "/dev/core"},
	} {
		if err := os.Symlink(l[0], l[1]); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// delegateCgroups has every controller at the root for whoever makes a cgroup
// there. The root may keep no process then, so this one goes to a leaf.
func delegateCgroups() error {
	const root = "/sys/fs/cgroup"
	leaf := filepath.Join(root, "init")
	if err := os.Mkdir(leaf, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte("0"), 0o644); err != nil {
		return fmt.Errorf("enter %s: %w", leaf, err)
	}
	controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for c := range strings.FieldsSeq(string(controllers)) {
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+c), 0o644); err != nil {
			return fmt.Errorf("enable controller %s: %w", c, err)
		}
	}
	return steady(root)
}

// steady makes the guest have a cgroup with a limit of CPU time from beginning to
// end. With the first and the last one the kernel rewrites its own code in the
// scheduler, and QEMU, which runs two processors at once, has been seen to run a
// half of that: an oops in update_curr.
func steady(root string) error {
	dir := filepath.Join(root, "steady")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "cpu.max"), []byte("100000 100000"), 0o644)
}

// command runs a program of the host's root file system.
func command(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	return nil
}
