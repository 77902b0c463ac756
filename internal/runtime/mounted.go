package runtime

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/spec"
)

// kernelMounts says where a file system that is an interface to the kernel may
// be mounted; below those places lie libcontainer's own masks.
var kernelMounts = map[string][]string{
	"proc": {"/proc"}, "sysfs": {"/sys"}, "cgroup": {"/sys/fs/cgroup"}, "cgroup2": {"/sys/fs/cgroup"},
	"mqueue": {"/dev/mqueue"}, "devpts": {"/dev/pts", "/dev/console"},
}

// neverMounts are interfaces to the kernel that no container has.
var neverMounts = []string{
	"bpf", "binder", "binfmt_misc", "configfs", "debugfs", "devtmpfs", "efivarfs", "fuse", "fusectl", "hugetlbfs", "nfsd",
	"nsfs", "pstore", "resctrl", "rpc_pipefs", "securityfs", "selinuxfs", "tracefs",
}

// judgeMounts looks at all mounts of a container, whoever made them, but for
// those that a later one covers: nobody there can take that off again.
func judgeMounts(mounts []mountPoint, s *specs.Spec, p spec.Policy) error {
	top := map[string]int{}
	for i, m := range mounts {
		top[m.path] = i
	}
	for i, m := range mounts {
		if top[m.path] != i || isMask(m) || isDevice(m) || isOwn(m, mounts[top["/"]]) {
			continue
		}
		if err := judgeMount(m, s, p); err != nil {
			return fmt.Errorf("mount %s of type %s: %w", m.path, m.fstype, err)
		}
	}
	return nil
}

func judgeMount(m mountPoint, s *specs.Spec, p spec.Policy) error {
	places, kernel := kernelMounts[m.fstype]
	switch {
	case slices.Contains(neverMounts, m.fstype):
		return errors.New("saw an interface to the kernel, want none of its kind")
	case kernel && !slices.ContainsFunc(places, func(place string) bool { return isBelow(m.path, place) }):
		return fmt.Errorf("want it at %s only", strings.Join(places, " or "))
	case m.path == "/sys/fs/cgroup" && m.fstype == "tmpfs" && m.has("ro"):
		return nil // that the hierarchies of cgroup v1 are mounted in
	case !kernel && (isBelow(m.path, "/proc") || isBelow(m.path, "/sys")):
		return errors.New("want the kernel's own file system there, or a mask")
	case m.fstype == "proc" && (p.Files.ReadonlyProc || m.path != "/proc") && !m.has("ro"):
		return errors.New("saw it writable, want ro")
	case (m.fstype == "sysfs" || m.fstype == "cgroup" || m.fstype == "cgroup2") && !m.has("ro"):
		return errors.New("saw it writable, want ro")
	case m.path == "/":
		return judgeRoot(m, s)
	case m.fstype == "devpts" || m.path == "/dev":
		return nil // device nodes are what these are for
	}
	return judgeFlags(m, s)
}

func judgeRoot(m mountPoint, s *specs.Spec) error {
	if s.Root.Readonly && !m.has("ro") {
		return errors.New("saw it writable, want ro")
	}
	return nil
}

// isMask is true for what libcontainer puts over what is masked, anywhere: a
// read-only directory with room for nothing, or a null device.
func isMask(m mountPoint) bool {
	empty := m.fstype == "tmpfs" && m.has("ro") && slices.Contains(strings.Split(m.super, ","), "nr_inodes=1")
	null := path.Base(m.root) == "null" && (m.fstype == "tmpfs" || m.fstype == "devtmpfs")
	return empty || null
}

// isOwn is true for a part of the container's own root file system that is
// mounted read-only over itself.
func isOwn(m, root mountPoint) bool {
	return m.path != "/" && m.has("ro") && m.fstype == root.fstype && m.root == path.Join(root.root, m.path)
}

// isDevice is true for a single device node or terminal of the host's, which a
// user namespace gets in place of a node of its own.
func isDevice(m mountPoint) bool {
	return path.Dir(m.path) == "/dev" && m.root != "/" && (m.fstype == "devtmpfs" || m.fstype == "devpts")
}

// judgeFlags is for everything that came through the bundle's mounts.
func judgeFlags(m mountPoint, s *specs.Spec) error {
	for _, option := range []string{"nosuid", "nodev"} {
		if !m.has(option) {
			return fmt.Errorf("saw %s, want %s", strings.Join(m.options, ","), option)
		}
	}
	i := slices.IndexFunc(s.Mounts, func(o specs.Mount) bool { return filepath.Clean(o.Destination) == m.path })
	if i >= 0 && slices.Contains(s.Mounts[i].Options, "ro") && !m.has("ro") {
		return errors.New("saw it writable, want ro")
	}
	return nil
}
