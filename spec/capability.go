package spec

import (
	"errors"
	"slices"
	"strings"
)

// grantable are the capabilities that a host may give. The others that Linux
// has reach past the container: to its kernel (SYS_*, BPF, PERFMON, SYSLOG,
// CHECKPOINT_RESTORE, WAKE_ALARM, BLOCK_SUSPEND), to devices (MKNOD), to
// packets that no guard sees (NET_ADMIN, NET_RAW), past file modes that mounts
// rely on (DAC_READ_SEARCH, LINUX_IMMUTABLE), to other capabilities (SETPCAP),
// to the security modules (MAC_*) or to the audit trail (AUDIT_CONTROL).
var grantable = []string{
	"CAP_AUDIT_READ", "CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_IPC_LOCK",
	"CAP_IPC_OWNER", "CAP_KILL", "CAP_LEASE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_SETFCAP", "CAP_SETGID",
	"CAP_SETUID",
}

// forbidden are those others.
var forbidden = []string{
	"CAP_AUDIT_CONTROL", "CAP_BLOCK_SUSPEND", "CAP_BPF", "CAP_CHECKPOINT_RESTORE", "CAP_DAC_READ_SEARCH",
	"CAP_LINUX_IMMUTABLE", "CAP_MAC_ADMIN", "CAP_MAC_OVERRIDE", "CAP_MKNOD", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_PERFMON",
	"CAP_SETPCAP", "CAP_SYSLOG", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_CHROOT", "CAP_SYS_MODULE", "CAP_SYS_NICE",
	"CAP_SYS_PACCT", "CAP_SYS_PTRACE", "CAP_SYS_RAWIO", "CAP_SYS_RESOURCE", "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG",
	"CAP_WAKE_ALARM",
}

// parseCapability takes a name with or without CAP_, as engines' options do.
func parseCapability(s string) (string, error) {
	name := "CAP_" + strings.TrimPrefix(s, "CAP_")
	switch {
	case slices.Contains(grantable, name):
		return name, nil
	case slices.Contains(forbidden, name):
		return "", errors.New("saw " + name + ", which no container may have")
	}
	return "", errors.New("saw no capability of Linux, want a name as CAP_CHOWN in upper case")
}
