package sys

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loadAttr and attachAttr are the beginnings of union bpf_attr that the two
// commands below read; bpf(2) takes a shorter one as filled up with zeroes.
type loadAttr struct {
	progType, insnCount uint32
	insns, license      uint64
}

type attachAttr struct {
	target, prog, attachType, flags uint32
}

// LoadCgroupSKB loads a program of type BPF_PROG_TYPE_CGROUP_SKB (Linux 4.10)
// from the bytes of its struct bpf_insn array, and gives its descriptor.
func LoadCgroupSKB(program []byte) (int, error) {
	if len(program) == 0 || len(program)%instruction != 0 {
		return -1, fmt.Errorf("bpf program of %d bytes: want a multiple of %d, and not none", len(program), instruction)
	}
	// By its own word sage's program is under no licence that would open the
	// kernel's GPL-only functions to it; it needs none of them.
	license := []byte("Apache-2.0\x00")
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&program[0])
	pinned.Pin(&license[0])
	attr := loadAttr{
		progType: unix.BPF_PROG_TYPE_CGROUP_SKB, insnCount: uint32(len(program) / instruction),
		insns: uint64(uintptr(unsafe.Pointer(&program[0]))), license: uint64(uintptr(unsafe.Pointer(&license[0]))),
	}
	fd, err := bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return fd, os.NewSyscallError("bpf(BPF_PROG_LOAD)", err)
}

// AttachEgress attaches a program beside those that are there, for what leaves
// the cgroup, until the cgroup is removed (BPF_F_ALLOW_MULTI, Linux 4.15).
func AttachEgress(cgroup, program int) error {
	attr := attachAttr{
		target: uint32(cgroup), prog: uint32(program),
		attachType: unix.BPF_CGROUP_INET_EGRESS, flags: unix.BPF_F_ALLOW_MULTI,
	}
	_, err := bpf(unix.BPF_PROG_ATTACH, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return os.NewSyscallError("bpf(BPF_PROG_ATTACH)", err)
}

func bpf(command uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
