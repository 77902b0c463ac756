package seccomp

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/bpf"
)

// Program is a filter that can be loaded: made by [Build], and not changed
// after.
type Program struct {
	policy Policy
	code   []bpf.RawInstruction
}

// Len is the number of instructions, which is what the kernel counts.
func (p Program) Len() int { return len(p.code) }

// Instructions is a copy of the program, for an interpreter.
func (p Program) Instructions() []bpf.RawInstruction { return slices.Clone(p.code) }

// Bytes is the program as the kernel takes it and gives it back: an array of
// struct sock_filter, little-endian, eight bytes each.
func (p Program) Bytes() []byte {
	raw := make([]byte, 0, 8*len(p.code))
	for _, ins := range p.code {
		raw = binary.LittleEndian.AppendUint16(raw, ins.Op)
		raw = append(raw, ins.Jt, ins.Jf)
		raw = binary.LittleEndian.AppendUint32(raw, ins.K)
	}
	return raw
}

// Digest is the SHA-256 of [Program.Bytes], in hex.
func (p Program) Digest() string {
	sum := sha256.Sum256(p.Bytes())
	return hex.EncodeToString(sum[:])
}

// Listing is the program for people, one instruction a line. Jumps show the
// line that they go to, if the test holds and if not.
func (p Program) Listing() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %v\n# %d instructions, sha256 %s\n", p.policy, p.Len(), p.Digest())
	_, notes, _ := p.policy.assemble(noteCalls) // as Build did, without an error
	for i, ins := range p.code {
		line := fmt.Sprintf("%4d  %s", i, describe(i, ins))
		if notes[i] != "" {
			line = fmt.Sprintf("%-38s; %s", line, notes[i])
		}
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

// The operation codes that [assembler] makes: class, size or test, and operand.
const (
	opLoad   = 0x20
	opAnd    = 0x54
	opJump   = 0x05
	opEqual  = 0x15
	opAtMost = 0x35 // greater or equal, so the value is at most the accumulator
	opBits   = 0x45
	opReturn = 0x06
)

// describe reads the raw form: in golang.org/x/net's own, a jump without a
// distance comes back as the opposite test.
func describe(at int, ins bpf.RawInstruction) string {
	ways := fmt.Sprintf("%d, %d", at+1+int(ins.Jt), at+1+int(ins.Jf))
	switch ins.Op {
	case opLoad:
		return "ld " + place(ins.K)
	case opAnd:
		return fmt.Sprintf("and %#x", ins.K)
	case opEqual:
		return fmt.Sprintf("jeq %s, %s", number(ins.K), ways)
	case opAtMost:
		return fmt.Sprintf("jge %s, %s", number(ins.K), ways)
	case opBits:
		return fmt.Sprintf("jset %#x, %s", ins.K, ways)
	case opJump:
		return fmt.Sprintf("ja %d", at+1+int(ins.K))
	case opReturn:
		return "ret " + Action(ins.K).String()
	}
	return fmt.Sprintf("%#04x %d %d %#x", ins.Op, ins.Jt, ins.Jf, ins.K)
}

// number shows calls, options and families as they are known, in decimal, and
// ioctls, flags and modes in hex.
func number(v uint32) string {
	if v < 1000 {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%#x", v)
}

func place(offset uint32) string {
	switch {
	case offset == offNumber:
		return "number"
	case offset == offArch:
		return "arch"
	case offset%8 == 4:
		return fmt.Sprintf("arg%d.high", (offset-offArgs)/8)
	}
	return fmt.Sprintf("arg%d", (offset-offArgs)/8)
}
