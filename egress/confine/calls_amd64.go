package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// archCalls are calls that the other architecture has no number for.
var archCalls = []uint32{unix.SYS_EPOLL_WAIT, unix.SYS_TIME}
