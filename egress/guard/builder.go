package guard

import (
	"encoding/binary"
	"net/netip"

	"github.com/cilium/ebpf/asm"

	"github.com/sage-sandbox/sage/egress"
)

// builder writes programs. Registers: R6 is what the kernel handed over, R7 the
// beginning of a packet, R1 to R5 are spent at once. Labels: "pass" and "refuse"
// end every program; whatever comes to neither is refused.
type builder struct {
	Options
	errno bool // a refused call says its own error
}

// Addresses as numbers. The first byte of 127.0.0.0/8, and the first 15 bits of
// the synthetic range, are what is left of an address shifted by the rest.
const (
	loopbackNet  = 127
	loopbackRest = 24
	localhost    = 127<<24 | 1
	dockerDNS    = 127<<24 | 11
	firstIndex   = 1 // lo in every network namespace (LOOPBACK_IFINDEX)
)

var (
	syntheticRest = int32(32 - egress.Synthetic.Bits())
	syntheticNet  = network(egress.Synthetic)
)

// network is what is left of the prefix' addresses when the rest is shifted out.
// An address as an int32 would be negative from 128.0.0.0 on, and keep its sign.
func network(p netip.Prefix) int32 {
	a := p.Addr().As4()
	return int32(binary.BigEndian.Uint32(a[:]) >> (32 - p.Bits())) //nolint:gosec // a prefix is shorter than 32 bits
}

func when(is bool, code ...asm.Instruction) asm.Instructions {
	if is {
		return code
	}
	return nil
}

func join(parts ...asm.Instructions) asm.Instructions {
	var all asm.Instructions
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// always is the label of a jump that every path takes.
func always(label string) asm.Instruction { return asm.Ja.Label(label) }

// loadBE loads a number that is in network order.
func loadBE(to, from asm.Register, offset int16, size asm.Size) asm.Instructions {
	return asm.Instructions{asm.LoadMem(to, from, offset, size), asm.HostTo(asm.BE, to, size)}
}

// verdicts end a program: 1 lets pass, 0 refuses.
func verdicts(beforeRefusal ...asm.Instruction) asm.Instructions {
	refuse := append(asm.Instructions{}, beforeRefusal...)
	refuse = append(refuse, asm.Mov.Imm(asm.R0, 0), asm.Return())
	refuse[0] = refuse[0].WithSymbol("refuse")
	return append(refuse, asm.Mov.Imm(asm.R0, 1).WithSymbol("pass"), asm.Return())
}
