package seccomp

import (
	"fmt"
	"testing"

	"golang.org/x/net/bpf"
)

// TestFarJumps jumps over blocks around the length of 255, on either way out
// and on both, and looks at where the program really arrives.
func TestFarJumps(t *testing.T) {
	for _, gap := range []int{0, 1, 252, 253, 254, 255, 256, 257, 258, 600} {
		for _, ways := range []string{"yes", "no", "both"} {
			t.Run(fmt.Sprintf("%s over %d", ways, gap), func(t *testing.T) {
				m := newMachine(t, farProgram(t, gap, ways))
				for nr, want := range map[uint32]Action{7: wantFar(ways, true), 8: wantFar(ways, false)} {
					if got := m.verdict(t, call{nr: nr}); got != want {
						t.Errorf("number %d: got %v, want %v", nr, got, want)
					}
				}
			})
		}
	}
}

// The places of a far program: behind the gap if the test holds, if not, and
// right after the jump.
const (
	behindYes = failWith | 11
	behindNo  = failWith | 22
	near      = failWith | 33
)

func wantFar(ways string, holds bool) Action {
	switch {
	case holds && ways != "no":
		return behindYes
	case !holds && ways != "yes":
		return behindNo
	}
	return near
}

func farProgram(t *testing.T, gap int, ways string) []bpf.RawInstruction {
	t.Helper()
	var a assembler
	yes, no := a.label(), a.label()
	a.load(offNumber)
	switch ways {
	case "yes":
		a.jumpIf(opEqual, 7, yes, next)
	case "no":
		a.jumpIf(opEqual, 7, next, no)
	case "both":
		a.jumpIf(opEqual, 7, yes, no)
	}
	a.ret(near, "")
	for range gap {
		a.ret(KillProcess, "")
	}
	a.mark(yes)
	a.ret(behindYes, "")
	a.mark(no)
	a.ret(behindNo, "")
	code, _, err := a.assemble()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// TestChainedFarJumps has jumps that come out of reach only because others
// grew, so that one pass of placing is not enough.
func TestChainedFarJumps(t *testing.T) {
	const n = 300
	var a assembler
	a.load(offNumber)
	ends := make([]label, n)
	for i := range ends {
		ends[i] = a.label()
		a.jumpIf(opEqual, uint32(i), ends[i], next)
	}
	a.ret(Allow, "")
	for i, end := range ends {
		a.mark(end)
		a.ret(failWith|Action(i+1), "")
	}
	code, _, err := a.assemble()
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, code)
	for i := range uint32(n) {
		if got, want := m.verdict(t, call{nr: i}), failWith|Action(i+1); got != want {
			t.Errorf("number %d: got %v, want %v", i, got, want)
		}
	}
	if got := m.verdict(t, call{nr: n}); got != Allow {
		t.Errorf("number %d: got %v, want %v", n, got, Allow)
	}
}

func TestTooLong(t *testing.T) {
	var a assembler
	for range maxInstructions {
		a.ret(Allow, "")
	}
	if _, _, err := a.assemble(); err != nil {
		t.Errorf("%d instructions: %v", maxInstructions, err)
	}
	a.ret(Allow, "")
	if _, _, err := a.assemble(); err == nil {
		t.Errorf("%d instructions: got no error", maxInstructions+1)
	}
}
