package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// archCalls are calls that the other architecture has no number for.
var archCalls []uint32
