package main

import "golang.org/x/sys/unix"

// kinds are the namespaces, with the flag that makes one.
var kinds = []struct {
	name string
	flag uintptr
}{
	{"mnt", unix.CLONE_NEWNS},
	{"cgroup", unix.CLONE_NEWCGROUP},
	{"uts", unix.CLONE_NEWUTS},
	{"ipc", unix.CLONE_NEWIPC},
	{"user", unix.CLONE_NEWUSER},
	{"pid", unix.CLONE_NEWPID},
	{"net", unix.CLONE_NEWNET},
}

func namespaces() []attempt {
	list := []attempt{
		{"unshare time", inChild(unix.SYS_UNSHARE, unix.CLONE_NEWTIME)},
		{"unshare user, a bit above", inChild(unix.SYS_UNSHARE, bit32|unix.CLONE_NEWUSER)},
		{"unshare files, a bit above", inChild(unix.SYS_UNSHARE, bit32|unix.CLONE_FILES)},
		{"unshare user and mnt", inChild(unix.SYS_UNSHARE, unix.CLONE_NEWUSER|unix.CLONE_NEWNS)},
		{"clone user, a bit above", forking(unix.SYS_CLONE, bit32|unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD))},
		{"clone user, many bits above", forking(unix.SYS_CLONE, bit32*0xdeadbeef|unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD))},
		{"clone pid, a bit above", forking(unix.SYS_CLONE, bit32|unix.CLONE_NEWPID|uintptr(unix.SIGCHLD))},
		{"clone3", forking(unix.SYS_CLONE3, cloneArgs(0), 64)},
		{"clone3 user", forking(unix.SYS_CLONE3, cloneArgs(unix.CLONE_NEWUSER), 64)},
		{"setns by pidfd", callOn(ownPidfd, unix.SYS_SETNS, unix.CLONE_NEWUTS)},
		{"setns by nothing", call(unix.SYS_SETNS, none, 0)},
	}
	for _, k := range kinds {
		list = append(list,
			attempt{"unshare " + k.name, inChild(unix.SYS_UNSHARE, k.flag)},
			attempt{"clone " + k.name, forking(unix.SYS_CLONE, k.flag|uintptr(unix.SIGCHLD))},
			attempt{"setns " + k.name, inChildOn(opened("/proc/self/ns/"+k.name, unix.O_RDONLY), unix.SYS_SETNS, k.flag)})
	}
	return aliases(list)
}

// cloneArgs is struct clone_args with flags, and SIGCHLD in its fifth word.
func cloneArgs(flags uint64) uintptr {
	b := make([]byte, 64)
	copy(b, word(flags, 8))
	copy(b[32:], word(uint64(unix.SIGCHLD), 8))
	return data(b)
}

func ownPidfd() (int, error) { return unix.PidfdOpen(unix.Getpid(), 0) }
