package main

import "golang.org/x/sys/unix"

const (
	cwd  = ^uintptr(99) // AT_FDCWD
	none = ^uintptr(0)  // a descriptor that is not open
)

func mounts() []attempt {
	tree, null, tmp := text("/"), text("none"), text("/tmp")
	return []attempt{
		{"mount tmpfs", call(unix.SYS_MOUNT, null, tmp, text("tmpfs"), 0, 0)},
		{"mount proc", call(unix.SYS_MOUNT, null, tmp, text("proc"), 0, 0)},
		{"mount bind", call(unix.SYS_MOUNT, tree, tmp, 0, unix.MS_BIND, 0)},
		{"mount remount writable", call(unix.SYS_MOUNT, null, text("/proc"), 0, unix.MS_REMOUNT|unix.MS_BIND, 0)},
		{"mount propagation", call(unix.SYS_MOUNT, null, tree, 0, unix.MS_REC|unix.MS_PRIVATE, 0)},
		{"umount2", call(unix.SYS_UMOUNT2, text("/dev/mqueue"), unix.MNT_DETACH)},
		{"pivot_root", call(unix.SYS_PIVOT_ROOT, text("."), text("."))},
		{"chroot", call(unix.SYS_CHROOT, tmp)},
		{"fsopen", call(unix.SYS_FSOPEN, text("tmpfs"), 0)},
		{"fsconfig", call(unix.SYS_FSCONFIG, none, 0, 0, 0, 0)},
		{"fsmount", call(unix.SYS_FSMOUNT, none, 0, 0)},
		{"fspick", call(unix.SYS_FSPICK, cwd, tree, 0)},
		{"move_mount", call(unix.SYS_MOVE_MOUNT, none, text(""), cwd, tmp, unix.MOVE_MOUNT_F_EMPTY_PATH)},
		{"open_tree", call(unix.SYS_OPEN_TREE, cwd, tree, 0)},
		{"open_tree clone", call(unix.SYS_OPEN_TREE, cwd, tree, unix.OPEN_TREE_CLONE)},
		{"open_tree_attr", call(unix.SYS_OPEN_TREE_ATTR, cwd, tree, 0, 0, 0)},
		{"open_tree_attr clone", call(unix.SYS_OPEN_TREE_ATTR, cwd, tree, unix.OPEN_TREE_CLONE, 0, 0)},
		{"mount_setattr", call(unix.SYS_MOUNT_SETATTR, cwd, text("/proc/sys"), 0, zeroes(32), 32)},
	}
}
