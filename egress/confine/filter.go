package confine

import (
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// call is a system call that the process may make: always, or if every test of
// its arguments holds.
type call struct {
	nr    uint32
	tests []test
}

// test looks at the low half of an argument; the calls that are tested take an
// int or look at no more than that half.
type test struct {
	arg  int
	mask uint32
	is   []uint32 // one of them
}

// anyBits is the mask of a test of the whole half.
const anyBits = ^uint32(0)

// Places in struct seccomp_data, see seccomp(2).
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

// Filter is the seccomp program for a role, as struct sock_filter array: what
// is not listed ends the process. pid is the process's own.
func Filter(role Role, pid int) ([]byte, error) {
	if role != Bridge && role != Proxy {
		return nil, fmt.Errorf("role: saw %d, want Bridge or Proxy", role)
	}
	kill := bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: atArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		kill,
		bpf.LoadAbsolute{Off: atNumber, Size: 4},
	}
	for _, c := range calls(role, uint32(pid)) {
		body := append(c.body(kill), bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
		skip := bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.nr, SkipFalse: uint8(len(body))}
		program = append(append(program, skip), body...)
	}
	raw, err := bpf.Assemble(append(program, kill))
	if err != nil {
		return nil, err
	}
	var filter []byte
	for _, ins := range raw {
		filter = binary.NativeEndian.AppendUint16(filter, ins.Op)
		filter = append(filter, ins.Jt, ins.Jf)
		filter = binary.NativeEndian.AppendUint32(filter, ins.K)
	}
	return filter, nil
}

// body falls through where every test holds.
func (c call) body(otherwise bpf.Instruction) []bpf.Instruction {
	var body []bpf.Instruction
	for _, t := range c.tests {
		body = append(body,
			bpf.LoadAbsolute{Off: uint32(atArgs + 8*t.arg), Size: 4}, // little endian, both architectures
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: t.mask})
		for i, value := range t.is {
			body = append(body, bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipTrue: uint8(len(t.is) - i)})
		}
		body = append(body, otherwise)
	}
	return body
}

func calls(role Role, pid uint32) []call {
	listed := slices.Concat(always(goRuntime), always(archCalls), guarded(pid), always(relaying))
	if role == Proxy {
		listed = slices.Concat(listed, always(dialing), []call{internet})
	}
	return listed
}

func always(numbers []uint32) []call {
	var listed []call
	for _, nr := range numbers {
		listed = append(listed, call{nr: nr})
	}
	return listed
}
