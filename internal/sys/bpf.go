package sys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// attachAttr begins the union bpf_attr of BPF_PROG_ATTACH and BPF_PROG_DETACH;
// bpf(2) takes a shorter one as filled up with zeroes.
type attachAttr struct {
	target, prog, attachType, flags uint32
}

// LoadCgroupSKB loads a program of type BPF_PROG_TYPE_CGROUP_SKB (Linux 4.10)
// from the bytes of its struct bpf_insn array, and gives its descriptor.
func LoadCgroupSKB(program []byte) (int, error) {
	return LoadProgram(CgroupProgram{Type: unix.BPF_PROG_TYPE_CGROUP_SKB, Attach: unix.BPF_CGROUP_INET_EGRESS, Instructions: program})
}

// AttachEgress attaches a program beside those that are there, for what leaves
// the cgroup, until the cgroup is removed (BPF_F_ALLOW_MULTI, Linux 4.15).
func AttachEgress(cgroup, program int) error {
	return AttachProgram(cgroup, program, unix.BPF_CGROUP_INET_EGRESS)
}

func bpf(command uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
