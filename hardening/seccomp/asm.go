package seccomp

import (
	"fmt"

	"golang.org/x/net/bpf"
)

// maxInstructions is the kernel's BPF_MAXINSNS.
const maxInstructions = 4096

// label is a place in the program that is not yet known. next is the operation
// that follows.
type label int

const next label = -1

// operation is an instruction before addresses are known: a jump if yes and no
// are used, and else ins.
type operation struct {
	ins     bpf.Instruction
	jump    bool
	test    bpf.JumpTest
	val     uint32
	yes, no label
	note    string // for the listing
}

// assembler collects operations and gives each its place at the end. A
// conditional jump reaches 255 instructions, so one that has to reach further
// gets an unconditional one behind it, which may move others out of reach.
type assembler struct {
	ops    []operation
	places []int        // by label: the operation that it stands before
	far    map[jump]int // those that need an unconditional jump; the value is its slot
	note   func(Arch, span) string
}

// jump is one way out of an operation.
type jump struct {
	op  int
	yes bool
}

func (a *assembler) label() label {
	a.places = append(a.places, -1)
	return label(len(a.places) - 1)
}

// mark puts the label before the operation that is added next.
func (a *assembler) mark(l label) { a.places[l] = len(a.ops) }

func (a *assembler) load(offset uint32) {
	a.ops = append(a.ops, operation{ins: bpf.LoadAbsolute{Off: offset, Size: 4}})
}

func (a *assembler) and(mask uint32) {
	a.ops = append(a.ops, operation{ins: bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask}})
}

func (a *assembler) ret(verdict Action, note string) {
	a.ops = append(a.ops, operation{ins: bpf.RetConstant{Val: uint32(verdict)}, note: note})
}

func (a *assembler) jumpIf(test bpf.JumpTest, val uint32, yes, no label) {
	a.ops = append(a.ops, operation{jump: true, test: test, val: val, yes: yes, no: no})
}

// assemble places every operation and returns the program with its notes.
func (a *assembler) assemble() ([]bpf.RawInstruction, []string, error) {
	a.far = map[jump]int{}
	starts := a.layout()
	for a.widen(starts) {
		starts = a.layout()
	}
	var program []bpf.RawInstruction
	var notes []string
	for i, op := range a.ops {
		for _, ins := range a.encode(i, starts) {
			assembled, err := ins.Assemble()
			if err != nil {
				return nil, nil, fmt.Errorf("assemble operation %d: %w", i, err)
			}
			program, notes = append(program, assembled), append(notes, op.note)
		}
	}
	if len(program) > maxInstructions {
		return nil, nil, fmt.Errorf("program has %d instructions, want %d at most", len(program), maxInstructions)
	}
	return program, notes, nil
}

// layout gives the first instruction of every operation, and of the end.
func (a *assembler) layout() []int {
	starts := make([]int, 0, len(a.ops)+1)
	at := 0
	for i := range a.ops {
		starts = append(starts, at)
		at++
		for _, yes := range []bool{true, false} {
			if _, ok := a.far[jump{i, yes}]; ok {
				a.far[jump{i, yes}] = at
				at++
			}
		}
	}
	return append(starts, at)
}

// widen finds the jumps that do not reach, and tells whether there was one. A
// jump never becomes short again, so this ends.
func (a *assembler) widen(starts []int) bool {
	widened := false
	for i, op := range a.ops {
		for _, yes := range []bool{true, false} {
			if op.jump && a.distance(i, yes, starts) > 255 {
				a.far[jump{i, yes}] = 0
				widened = true
			}
		}
	}
	return widened
}

// target is the instruction that a way out of an operation leads to.
func (a *assembler) target(i int, yes bool, starts []int) int {
	to := a.ops[i].no
	if yes {
		to = a.ops[i].yes
	}
	if to == next {
		return starts[i+1]
	}
	return starts[a.places[to]]
}

// distance is how many instructions the conditional jump itself skips.
func (a *assembler) distance(i int, yes bool, starts []int) int {
	to := a.target(i, yes, starts)
	if slot, ok := a.far[jump{i, yes}]; ok {
		to = slot
	}
	return to - starts[i] - 1
}

func (a *assembler) encode(i int, starts []int) []bpf.Instruction {
	op := a.ops[i]
	if !op.jump {
		return []bpf.Instruction{op.ins}
	}
	out := []bpf.Instruction{bpf.JumpIf{
		Cond: op.test, Val: op.val,
		SkipTrue:  uint8(a.distance(i, true, starts)),
		SkipFalse: uint8(a.distance(i, false, starts)),
	}}
	for _, yes := range []bool{true, false} {
		if slot, ok := a.far[jump{i, yes}]; ok {
			out = append(out, bpf.Jump{Skip: uint32(a.target(i, yes, starts) - slot - 1)})
		}
	}
	return out
}
