package sys

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are bpf(2) as it is, one call for each thing done, and not the library
// that internal/runtime links anyhow: that one makes a map to find out what the
// kernel can do, masks signals round each load, and asks twice for what it reads
// back.

// CgroupProgram is a program to be attached to a cgroup, of struct bpf_insn.
type CgroupProgram struct {
	Type         uint32 // BPF_PROG_TYPE_*
	Attach       uint32 // BPF_CGROUP_*, what it is checked for by the verifier
	Name         string // for bpftool(8); at most 15 of A-Z a-z 0-9 _ .
	Instructions []byte
}

// bpfLoad begins the union bpf_attr of BPF_PROG_LOAD.
type bpfLoad struct {
	progType, insnCount  uint32
	insns, license       uint64
	logLevel, logSize    uint32
	log                  uint64
	kernVersion, flags   uint32
	name                 [unix.BPF_OBJ_NAME_LEN]byte
	ifindex, expectation uint32
}

// verifierRoom holds the last words of the verifier on a program that it refuses.
const verifierRoom = 1 << 16

// loadTries is more than a program that loads in some 50 microseconds ever needs.
const loadTries = 30

// LoadProgram gives the descriptor of a program that the kernel has verified
// (Linux 4.17, CAP_BPF with CAP_NET_ADMIN, or CAP_SYS_ADMIN before 5.8). The
// error of a program that the verifier refuses holds what it said.
func LoadProgram(p CgroupProgram) (int, error) {
	if len(p.Instructions) == 0 || len(p.Instructions)%instruction != 0 {
		return -1, fmt.Errorf("bpf program of %d bytes: want a multiple of %d, and not none", len(p.Instructions), instruction)
	}
	fd, err := loadProgram(p, nil)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EACCES) {
		log := make([]byte, verifierRoom)
		if fd, err = loadProgram(p, log); err != nil {
			err = fmt.Errorf("%w: %s", err, lastWords(log))
		}
	}
	return fd, err
}

func loadProgram(p CgroupProgram, log []byte) (int, error) {
	// By its own word sage's program is under no licence that would open the
	// kernel's GPL-only functions to it; it needs none of them.
	license := []byte("Apache-2.0\x00")
	var pinned runtime.Pinner
	defer pinned.Unpin()
	attr := bpfLoad{
		progType: p.Type, expectation: p.Attach,
		insnCount: uint32(len(p.Instructions) / instruction),
		insns:     address(&pinned, p.Instructions), license: address(&pinned, license),
	}
	copy(attr.name[:len(attr.name)-1], p.Name)
	if log != nil {
		attr.logLevel, attr.logSize, attr.log = 1, uint32(len(log)), address(&pinned, log)
	}
	fd, err := -1, error(unix.EAGAIN)
	// The verifier gives up when a signal is pending, and Go's scheduler sends some.
	for tries := 0; errors.Is(err, unix.EAGAIN) && tries < loadTries; tries++ {
		fd, err = bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	}
	return fd, os.NewSyscallError("bpf(BPF_PROG_LOAD)", err)
}

// address is for a field of a struct that the kernel reads: b stays where it is
// until the pinner lets go.
func address(pinned *runtime.Pinner, b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	pinned.Pin(&b[0])
	return uint64(uintptr(unsafe.Pointer(&b[0])))
}

// lastWords are the lines that say why; before them stands the program itself.
func lastWords(log []byte) string {
	lines := strings.Split(strings.Trim(string(log), "\x00\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// AttachProgram attaches beside those that are there, until the cgroup is
// removed (BPF_F_ALLOW_MULTI, Linux 4.15). EPERM for one that may load programs
// says that one at this cgroup, or above it, admits no other.
func AttachProgram(cgroup, program int, attach uint32) error {
	return AttachProgramFlags(cgroup, program, attach, unix.BPF_F_ALLOW_MULTI)
}

// AttachProgramFlags is for tests that play another program of the host's: 0
// admits no other, BPF_F_ALLOW_OVERRIDE lets others take its place.
func AttachProgramFlags(cgroup, program int, attach, flags uint32) error {
	attr := attachAttr{target: uint32(cgroup), prog: uint32(program), attachType: attach, flags: flags}
	_, err := bpf(unix.BPF_PROG_ATTACH, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return os.NewSyscallError("bpf(BPF_PROG_ATTACH)", err)
}

// DetachProgram takes back what [AttachProgram] did.
func DetachProgram(cgroup, program int, attach uint32) error {
	attr := attachAttr{target: uint32(cgroup), prog: uint32(program), attachType: attach}
	_, err := bpf(unix.BPF_PROG_DETACH, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return os.NewSyscallError("bpf(BPF_PROG_DETACH)", err)
}

// bpfQuery begins the union bpf_attr of BPF_PROG_QUERY.
type bpfQuery struct {
	target, attach, queryFlags, attachFlags uint32
	ids                                     uint64
	count, _                                uint32
}

// programsRoom is the most that the kernel lets one cgroup have of a kind
// (BPF_CGROUP_MAX_PROGS); what comes from above is in addition.
const programsRoom = 64

// AttachedPrograms gives the ids of the programs that were attached to this
// cgroup itself, and with which of BPF_F_ALLOW_MULTI and BPF_F_ALLOW_OVERRIDE
// (Linux 4.15).
func AttachedPrograms(cgroup int, attach uint32) ([]uint32, uint32, error) {
	return queryPrograms(bpfQuery{target: uint32(cgroup), attach: attach})
}

// EffectivePrograms gives the ids of those that are run for a socket of this
// cgroup, whether attached to it or above.
func EffectivePrograms(cgroup int, attach uint32) ([]uint32, error) {
	ids, _, err := queryPrograms(bpfQuery{target: uint32(cgroup), attach: attach, queryFlags: unix.BPF_F_QUERY_EFFECTIVE})
	return ids, err
}

func queryPrograms(attr bpfQuery) ([]uint32, uint32, error) {
	ids := make([]uint32, programsRoom)
	for {
		var pinned runtime.Pinner
		pinned.Pin(&ids[0])
		attr.ids, attr.count = uint64(uintptr(unsafe.Pointer(&ids[0]))), uint32(len(ids))
		_, err := bpf(unix.BPF_PROG_QUERY, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
		pinned.Unpin()
		if errors.Is(err, unix.ENOSPC) && int(attr.count) > len(ids) {
			ids = make([]uint32, attr.count)
			continue
		}
		if err != nil {
			return nil, 0, os.NewSyscallError("bpf(BPF_PROG_QUERY)", err)
		}
		return ids[:attr.count], attr.attachFlags, nil
	}
}

// OpenProgram gives a descriptor of the program with that id; ENOENT if there
// is none any more (Linux 4.13, CAP_SYS_ADMIN).
func OpenProgram(id uint32) (int, error) {
	attr := struct{ id, next, flags uint32 }{id: id}
	fd, err := bpf(unix.BPF_PROG_GET_FD_BY_ID, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return fd, os.NewSyscallError("bpf(BPF_PROG_GET_FD_BY_ID)", err)
}

// ProgramInfo is what the kernel says of a program that is loaded.
type ProgramInfo struct {
	Type uint32
	ID   uint32
	// Tag is the beginning of the hash of the instructions as they were loaded:
	// SHA-1, or SHA-256 from Linux 6.18 on.
	Tag  [unix.BPF_TAG_SIZE]byte
	Name string
	// Translated are the instructions as the verifier has rewritten them for this
	// kernel; nil where the kernel does not show them (net.core.bpf_jit_harden
	// with kernel.kptr_restrict).
	Translated []byte
}

// bpfInfo begins struct bpf_prog_info.
type bpfInfo struct {
	progType, id             uint32
	tag                      [unix.BPF_TAG_SIZE]byte
	jitedLen, translatedLen  uint32
	jited, translated        uint64
	loadTime                 uint64
	createdByUID, mapIDCount uint32
	mapIDs                   uint64
	name                     [unix.BPF_OBJ_NAME_LEN]byte
}

// translatedRoom is more than any program of a guard has, by far; of a larger
// one the beginning is read.
const translatedRoom = 16 << 10

// InspectProgram reads a program back (Linux 4.15, CAP_BPF or CAP_SYS_ADMIN for
// the instructions).
func InspectProgram(fd int) (ProgramInfo, error) {
	translated := make([]byte, translatedRoom)
	var pinned runtime.Pinner
	defer pinned.Unpin()
	info := bpfInfo{translatedLen: translatedRoom, translated: address(&pinned, translated)}
	pinned.Pin(&info)
	attr := struct {
		fd, size uint32
		info     uint64
	}{uint32(fd), uint32(unsafe.Sizeof(info)), uint64(uintptr(unsafe.Pointer(&info)))}
	if _, err := bpf(unix.BPF_OBJ_GET_INFO_BY_FD, unsafe.Pointer(&attr), unsafe.Sizeof(attr)); err != nil {
		return ProgramInfo{}, os.NewSyscallError("bpf(BPF_OBJ_GET_INFO_BY_FD)", err)
	}
	p := ProgramInfo{Type: info.progType, ID: info.id, Tag: info.tag, Name: unix.ByteSliceToString(info.name[:])}
	if info.translated != 0 {
		p.Translated = translated[:min(info.translatedLen, translatedRoom)]
	}
	return p, nil
}
