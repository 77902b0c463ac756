package seccomp

import (
	"fmt"

	"golang.org/x/net/bpf"
)

// maxInstructions is the kernel's BPF_MAXINSNS.
const maxInstructions = 4096

// label is a place in the program that is not yet known. next is the operation
// that follows.
type label int16

const next label = -1

// operation is an instruction before addresses are known: a jump if yes and no
// are used, and else ins.
type operation struct {
	ins     bpf.RawInstruction // of a jump without its distances
	yes, no label
	jump    bool
	// far are the ways that need an unconditional jump, which follows: 1 or 0.
	farYes, farNo uint8
}

// assembler collects operations and gives each its place at the end. A
// conditional jump reaches 255 instructions, so one that has to reach further
// gets an unconditional one behind it, which may move others out of reach.
//
// It makes raw instructions, since every start of a container assembles one
// program: by way of the types of golang.org/x/net that took five times as long.
type assembler struct {
	ops    []operation
	places []int16        // by label: the operation that it stands before
	notes  map[int]string // by operation, for the listing
	note   func(Arch, span) string
}

// usual is room for the operations, and labels, of any variant.
const usual = 512

func newAssembler(note func(Arch, span) string) *assembler {
	return &assembler{ops: make([]operation, 0, usual), places: make([]int16, 0, usual), notes: map[int]string{}, note: note}
}

func (a *assembler) label() label {
	a.places = append(a.places, -1)
	return label(len(a.places) - 1)
}

// mark puts the label before the operation that is added next.
func (a *assembler) mark(l label) { a.places[l] = int16(len(a.ops)) }

func (a *assembler) load(offset uint32) { a.add(opLoad, offset) }

func (a *assembler) and(mask uint32) { a.add(opAnd, mask) }

func (a *assembler) ret(verdict Action, note string) {
	if note != "" {
		a.notes[len(a.ops)] = note
	}
	a.add(opReturn, uint32(verdict))
}

func (a *assembler) add(code uint16, k uint32) {
	a.ops = append(a.ops, operation{ins: bpf.RawInstruction{Op: code, K: k}})
}

// jumpIf takes one of opEqual, opAtMost and opBits.
func (a *assembler) jumpIf(test uint16, val uint32, yes, no label) {
	a.ops = append(a.ops, operation{ins: bpf.RawInstruction{Op: test, K: val}, jump: true, yes: yes, no: no})
}

// assemble places every operation and returns the program with its notes, by
// instruction.
func (a *assembler) assemble() ([]bpf.RawInstruction, map[int]string, error) {
	starts := make([]int16, len(a.ops)+1)
	for a.layout(starts); a.widen(starts); {
		a.layout(starts)
	}
	length := int(starts[len(a.ops)])
	if length > maxInstructions {
		return nil, nil, fmt.Errorf("program has %d instructions, want %d at most", length, maxInstructions)
	}
	program := make([]bpf.RawInstruction, 0, length)
	for i := range a.ops {
		program = a.encode(program, i, starts)
	}
	notes := make(map[int]string, len(a.notes))
	for i, note := range a.notes {
		notes[int(starts[i])] = note
	}
	return program, notes, nil
}

// layout gives the first instruction of every operation, and of the end.
func (a *assembler) layout(starts []int16) {
	at := 0
	for i := range a.ops {
		starts[i] = int16(at)
		at += 1 + int(a.ops[i].farYes) + int(a.ops[i].farNo)
	}
	starts[len(a.ops)] = int16(at)
}

// widen finds the jumps that do not reach, and tells whether there was one. A
// jump never becomes short again, so this ends.
func (a *assembler) widen(starts []int16) bool {
	widened := false
	for i := range a.ops {
		op := &a.ops[i]
		if op.jump && op.farYes == 0 && a.distance(i, op.yes, starts) > reach {
			op.farYes, widened = 1, true
		}
		if op.jump && op.farNo == 0 && a.distance(i, op.no, starts) > reach {
			op.farNo, widened = 1, true
		}
	}
	return widened
}

// reach is how many instructions a conditional jump can skip.
const reach = 255

// distance is how many instructions lie between an operation's first one and
// the place that a label stands for.
func (a *assembler) distance(i int, to label, starts []int16) int {
	if to == next {
		return int(starts[i+1] - starts[i] - 1)
	}
	return int(starts[a.places[to]] - starts[i] - 1)
}

// encode appends operation i. The unconditional jump for yes comes first.
func (a *assembler) encode(program []bpf.RawInstruction, i int, starts []int16) []bpf.RawInstruction {
	op := a.ops[i]
	if !op.jump {
		return append(program, op.ins)
	}
	yes, no := a.distance(i, op.yes, starts), a.distance(i, op.no, starts)
	farYes, farNo := jumpOver(yes-1), jumpOver(no-int(op.farYes)-1)
	if op.farYes == 1 {
		yes = 0
	}
	if op.farNo == 1 {
		no = int(op.farYes)
	}
	op.ins.Jt, op.ins.Jf = uint8(yes), uint8(no)
	program = append(program, op.ins)
	if op.farYes == 1 {
		program = append(program, farYes)
	}
	if op.farNo == 1 {
		program = append(program, farNo)
	}
	return program
}

func jumpOver(instructions int) bpf.RawInstruction {
	return bpf.RawInstruction{Op: opJump, K: uint32(instructions)}
}
