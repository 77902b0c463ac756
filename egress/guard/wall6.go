package guard

import (
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// packets6 has the protocol in R5: what follows the header at once. With an
// extension header there that is none which passes.
func (b builder) packets6(d direction) asm.Instructions {
	return join(
		labelled("ip6", within(sight6)),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R7, 0, asm.Byte), asm.RSh.Imm(asm.R1, 4), asm.JNE.Imm(asm.R1, 6, "refuse"),
			asm.LoadMem(asm.R5, asm.R7, ip6Next, asm.Byte),
			asm.JNE.Imm(asm.R9, firstIndex, "wire6"),
		},
		b.lo6(d),
		labelled("wire6", b.wire6(d)),
	)
}

// lo6 is lo4 for ::1, at both ends.
func (b builder) lo6(d direction) asm.Instructions {
	return join(
		isOne(asm.R7, d.local6, "wire6"), isOne(asm.R7, d.remote6, "wire6"),
		b.bridge(d.remPort6, "wire6"),
		when(b.Loopback, known(unix.IPPROTO_ICMPV6, "wire6")...),
	)
}

// isOne goes to otherwise if the address at offset is not ::1.
func isOne(from asm.Register, offset int16, otherwise string) asm.Instructions {
	return join(
		asm.Instructions{asm.LoadMem(asm.R1, from, offset, asm.DWord), asm.JNE.Imm(asm.R1, 0, otherwise)},
		loadBE(asm.R1, from, offset+8, asm.DWord),
		asm.Instructions{asm.JNE.Imm(asm.R1, 1, otherwise)},
	)
}

// wire6 is wire4, and the kernel's own questions and answers about neighbours.
// Of ::1 on a wire the kernel itself takes nothing.
func (b builder) wire6(d direction) asm.Instructions {
	stream := asm.Instructions{always("refuse")}
	if b.Published {
		stream = b.published(d, within(flagSight6), ip6Start)
	}
	if !b.neighbours() {
		return stream
	}
	return join(
		asm.Instructions{asm.JEq.Imm(asm.R9, firstIndex, "stream6"), asm.JNE.Imm(asm.R5, unix.IPPROTO_ICMPV6, "stream6")},
		neighbour(),
		labelled("stream6", stream),
	)
}

// neighbour lets pass what RFC 4861 has hosts say to each other, which no
// program can send by a socket that the second seccomp layer lets it have. It
// is bounded all the same: a hop limit that no router passes on, and no more
// bytes than an address and its options take.
func neighbour() asm.Instructions {
	return join(
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R7, ip6HopLimit, asm.Byte), asm.JNE.Imm(asm.R1, neighbourHops, "refuse"),
		},
		loadBE(asm.R1, asm.R7, ip6Length, asm.Half),
		asm.Instructions{
			asm.JGT.Imm(asm.R1, neighbourMax, "refuse"),
			asm.LoadMem(asm.R1, asm.R7, ip6Start, asm.Byte),
			asm.JLT.Imm(asm.R1, neighbourFirst, "refuse"), asm.JGT.Imm(asm.R1, neighbourLast, "refuse"),
			always("pass"),
		},
	)
}
