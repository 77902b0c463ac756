package guard

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// size is that of a struct bpf_insn.
const size = 8

// assemble gives the bytes of struct bpf_insn, without what no path leads to:
// the kernel takes no program with dead code, and options leave some. It is
// here since the library's own takes longer than the kernel does. sage runs on
// amd64 and arm64, so little-endian.
func assemble(code asm.Instructions) ([]byte, error) {
	at := make(map[string]int, 8)
	for i := range code {
		if label := code[i].Symbol(); label != "" {
			at[label] = i
		}
	}
	to, err := targets(code, at)
	if err != nil {
		return nil, err
	}
	place, count := numbered(reached(code, to))
	out := make([]byte, 0, count*size)
	for i, ins := range code {
		if place[i] < 0 {
			continue
		}
		offset := ins.Offset
		if to[i] >= 0 {
			offset = int16(place[to[i]] - place[i] - 1) //nolint:gosec // some hundred at most
		}
		out = append(out, byte(ins.OpCode), byte(ins.Dst)|byte(ins.Src)<<4)
		out = binary.LittleEndian.AppendUint16(out, uint16(offset))       //nolint:gosec // as it is
		out = binary.LittleEndian.AppendUint32(out, uint32(ins.Constant)) //nolint:gosec // as it is
	}
	return out, nil
}

// targets says where each instruction may jump to, -1 for those that do not.
func targets(code asm.Instructions, at map[string]int) ([]int, error) {
	to := make([]int, len(code))
	for i := range code {
		to[i] = -1
		label := code[i].Reference()
		if label == "" {
			continue
		}
		target, ok := at[label]
		if !ok {
			return nil, fmt.Errorf("instruction %d: saw a jump to %q, want a label that is there", i, label)
		}
		to[i] = target
	}
	return to, nil
}

// reached says which instructions a path leads to.
func reached(code asm.Instructions, to []int) []bool {
	seen, todo := make([]bool, len(code)), []int{0}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if i >= len(code) || seen[i] {
			continue
		}
		seen[i] = true
		if to[i] >= 0 {
			todo = append(todo, to[i])
		}
		if op := byte(code[i].OpCode); op != unix.BPF_JMP|unix.BPF_JA && op != unix.BPF_JMP|unix.BPF_EXIT {
			todo = append(todo, i+1)
		}
	}
	return seen
}

// numbered gives the kept instructions their numbers, -1 to the others.
func numbered(kept []bool) ([]int, int) {
	place, n := make([]int, len(kept)), 0
	for i, keep := range kept {
		place[i] = -1
		if keep {
			place[i] = n
			n++
		}
	}
	return place, n
}
