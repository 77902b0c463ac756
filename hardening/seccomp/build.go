package seccomp

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/bpf"
)

// Offsets in struct seccomp_data; an argument has its low half first on the
// two architectures, which are little-endian.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// span is a run of calls that share a decision. One that has clauses is of
// one call.
type span struct {
	first, last uint32
	clauses     []clause
	verdict     Action
}

// Build makes the filter for a policy. It returns [ErrArch] for a policy
// without architecture; every other policy has a program.
//
// The number is found by bisection, and no argument is loaded before it is
// known to matter: for a call whose verdict is a constant allow the kernel
// then does not run the program at all (Linux 5.11, its bitmap per filter).
func Build(p Policy) (Program, error) {
	code, _, err := p.assemble(func(Arch, span) string { return "" })
	if err != nil {
		return Program{}, fmt.Errorf("build seccomp filter: %w", err)
	}
	return Program{policy: p, code: code}, nil
}

// assemble also returns what note says, by instruction.
func (p Policy) assemble(note func(Arch, span) string) ([]bpf.RawInstruction, map[int]string, error) {
	token, ok := archTokens[p.Arch]
	if !ok {
		return nil, nil, fmt.Errorf("%w for %v", ErrArch, p.Arch)
	}
	spans, err := p.spans()
	if err != nil {
		return nil, nil, err
	}
	a := newAssembler(note)
	a.prologue(token)
	a.search(p.Arch, spans)
	return a.assemble()
}

// prologue comes before any number is looked at, since a number means another
// call on another architecture.
func (a *assembler) prologue(token uint32) {
	native, known := a.label(), a.label()
	a.load(offArch)
	a.jumpIf(opEqual, token, native, next)
	a.ret(KillProcess, "foreign architecture")
	a.mark(native)
	a.load(offNumber)
	a.jumpIf(opAtMost, maxCall+1, next, known)
	a.ret(errNoSys, newer)
	a.mark(known)
}

var newer = "newer than " + strconv.Itoa(maxCall) + ", and x32"

// search bisects; the accumulator holds the number until a span is reached.
func (a *assembler) search(arch Arch, spans []span) {
	if len(spans) == 1 {
		a.decide(spans[0], a.note(arch, spans[0]))
		return
	}
	half := len(spans) / 2
	upper := a.label()
	a.jumpIf(opAtMost, spans[half].first, upper, next)
	a.search(arch, spans[:half])
	a.mark(upper)
	a.search(arch, spans[half:])
}

// decide always ends in a return, so what follows it is reached by jumps only.
func (a *assembler) decide(s span, note string) {
	for _, c := range s.clauses {
		other := a.label()
		for _, cond := range c.conds {
			a.require(cond, other)
		}
		a.ret(c.then, note)
		a.mark(other)
	}
	a.ret(s.verdict, note)
}

// require goes on if the condition holds, and to the label if not.
func (a *assembler) require(c cond, other label) {
	offset := uint32(offArgs + 8*c.arg)
	if c.high {
		offset += 4
	}
	a.load(offset)
	if c.mask != ^uint32(0) {
		a.and(c.mask)
	}
	if c.anyBit != 0 {
		a.jumpIf(opBits, c.anyBit, next, other)
		return
	}
	holds := a.label()
	for i, v := range c.oneOf {
		no := next
		if i == len(c.oneOf)-1 {
			no = other
		}
		a.jumpIf(opEqual, v, holds, no)
	}
	a.mark(holds)
}

// spans divides the numbers from 0 to the newest known one, without a gap.
func (p Policy) spans() ([]span, error) {
	decided, err := p.decisions(rules())
	if err != nil {
		return nil, err
	}
	spans := make([]span, 0, usual/2)
	for nr := range uint32(len(decided)) {
		s := span{verdict: Allow}
		if decided[nr] != nil {
			s = *decided[nr]
		}
		s.first, s.last = nr, nr
		if n := len(spans); n > 0 && spans[n-1].joins(s) {
			spans[n-1].last = nr
			continue
		}
		spans = append(spans, s)
	}
	return spans, nil
}

func (s span) joins(t span) bool {
	return len(s.clauses) == 0 && len(t.clauses) == 0 && s.verdict == t.verdict
}

// decisions are the rules that count, by number. Two rows for one call are a
// contradiction in the table, not a question of order.
func (p Policy) decisions(table []rule) (decided [maxCall + 1]*span, err error) {
	for _, row := range table {
		r, ok := row.under(p.features())
		if !ok {
			continue
		}
		numbers, err := p.Arch.numbers(r.calls)
		if err != nil {
			return decided, err
		}
		made := &span{clauses: r.clauses, verdict: r.verdict}
		for _, nr := range numbers {
			if decided[nr] != nil {
				return decided, fmt.Errorf("two rules for system call %s", p.Arch.name(nr))
			}
			decided[nr] = made
		}
	}
	return decided, nil
}

// noteCalls names the calls of a span, but not of the long ones that are allowed.
func noteCalls(arch Arch, s span) string {
	if len(s.clauses) == 0 && s.verdict == Allow {
		return fmt.Sprintf("%d-%d", s.first, s.last)
	}
	var names []string
	for nr := s.first; nr <= s.last; nr++ {
		names = append(names, arch.name(nr))
	}
	return strings.Join(names, " ")
}
