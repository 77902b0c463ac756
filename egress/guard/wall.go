package guard

import (
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Offsets in struct __sk_buff, and the protocols there, in network order.
const (
	skbProtocol = 16
	skbIfindex  = 40
	skbData     = 76
	skbDataEnd  = 80
	skbSocket   = 168
	socketType  = 8 // in struct bpf_sock
	protocolIP4 = 0x0008
	protocolIP6 = 0xdd86
)

// Offsets in headers, from the beginning of the packet.
const (
	ip4Fragment, ip4Protocol, ip4Header       = 6, 9, 20
	ip6Length, ip6Next, ip6HopLimit, ip6Start = 4, 6, 7, 40
	tcpFlags                                  = 13
	fragmentBits                              = 0xff3f // MF and offset, read as they lie
	plainHeader4                              = 0x45   // version 4, five words: no options
	synAck, syn                               = 0x12, 0x02
	// What must be there to read addresses and the first words behind them, which
	// every protocol that passes has; the kernel has them in one piece.
	sight4, sight6 = ip4Header + 8, ip6Start + 8
	flagSight4     = ip4Header + tcpFlags + 1
	flagSight6     = ip6Start + tcpFlags + 1
	neighbourMax   = 40 // bytes behind the header
	neighbourFirst = 133
	neighbourLast  = 136
	neighbourHops  = 255
)

// direction says which address of a packet is the container's.
type direction struct {
	outgoing              bool
	local4, remote4       int16
	local6, remote6       int16
	remotePort4, remPort6 int16
}

var (
	outgoing = direction{
		outgoing: true, local4: 12, remote4: 16, local6: 8, remote6: 24,
		remotePort4: ip4Header + 2, remPort6: ip6Start + 2,
	}
	incoming = direction{
		local4: 16, remote4: 12, local6: 24, remote6: 8,
		remotePort4: ip4Header, remPort6: ip6Start,
	}
)

// packets is the wall. A packet that is no IP, has IPv4 options or IPv6
// extension headers, or is a fragment, does not pass: nobody who uses sockets
// needs one, and a source route hides where a packet is bound for. The kernel
// calls this before it fragments and after it has put fragments together.
func (b builder) packets(d direction) asm.Instructions {
	if !b.onLo() && !b.Published {
		return verdicts()
	}
	return join(
		asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.LoadMem(asm.R7, asm.R6, skbData, asm.Word),
			asm.LoadMem(asm.R8, asm.R6, skbDataEnd, asm.Word),
			asm.LoadMem(asm.R9, asm.R6, skbIfindex, asm.Word),
			asm.LoadMem(asm.R1, asm.R6, skbProtocol, asm.Word),
			asm.JEq.Imm(asm.R1, protocolIP4, "ip4"),
			asm.JEq.Imm(asm.R1, protocolIP6, "ip6"),
			always("refuse"),
		},
		b.packets4(d), b.packets6(d), verdicts(),
	)
}

// within refuses a packet that is shorter than size, for the verifier's sake
// and ours.
func within(size int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R7), asm.Add.Imm(asm.R1, size), asm.JGT.Reg(asm.R1, asm.R8, "refuse"),
	}
}

// packets4 has the protocol in R5, the remote address in R2, the container's
// in R3.
func (b builder) packets4(d direction) asm.Instructions {
	return join(
		labelled("ip4", within(sight4)),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R7, 0, asm.Byte), asm.JNE.Imm(asm.R1, plainHeader4, "refuse"),
			asm.LoadMem(asm.R1, asm.R7, ip4Fragment, asm.Half),
			asm.And.Imm(asm.R1, fragmentBits), asm.JNE.Imm(asm.R1, 0, "refuse"),
			asm.LoadMem(asm.R5, asm.R7, ip4Protocol, asm.Byte),
		},
		loadBE(asm.R2, asm.R7, d.remote4, asm.Word), loadBE(asm.R3, asm.R7, d.local4, asm.Word),
		asm.Instructions{
			asm.JEq.Imm(asm.R2, dockerDNS, "refuse"), asm.JEq.Imm(asm.R3, dockerDNS, "refuse"),
			asm.JNE.Imm(asm.R9, firstIndex, "wire4"),
		},
		b.lo4(d),
		labelled("wire4", b.wire4(d)),
	)
}

// lo4 asks about both addresses. With the remote one alone a program could name
// a stranger's as its own, send to a port where nobody listens, and the kernel
// would carry its words to the stranger in an ICMP error.
func (b builder) lo4(d direction) asm.Instructions {
	return join(
		asm.Instructions{
			asm.Mov.Reg(asm.R4, asm.R3), asm.RSh.Imm(asm.R4, loopbackRest), asm.JEq.Imm(asm.R4, loopbackNet, "local4"),
		},
		b.synthetic(asm.R3, "local4"),
		asm.Instructions{always("wire4"), asm.Mov.Reg(asm.R4, asm.R2).WithSymbol("local4"), asm.RSh.Imm(asm.R4, loopbackRest)},
		when(b.Loopback, asm.JEq.Imm(asm.R4, loopbackNet, "protocol4")),
		b.synthetic(asm.R2, "protocol4"),
		b.bridge(d.remotePort4, "wire4", asm.JNE.Imm(asm.R2, localhost, "wire4")),
		asm.Instructions{always("wire4")},
		labelled("protocol4", known(unix.IPPROTO_ICMP, "wire4")),
	)
}

// synthetic goes to label where address is of the transparent path.
func (b builder) synthetic(address asm.Register, label string) asm.Instructions {
	return when(b.Transparent, asm.Mov.Reg(asm.R4, address), asm.RSh.Imm(asm.R4, syntheticRest), asm.JEq.Imm(asm.R4, syntheticNet, label))
}

// bridge lets TCP with the bridge's port pass, once the address is its own.
func (b builder) bridge(port int16, otherwise string, address ...asm.Instruction) asm.Instructions {
	if b.BridgePort == 0 || b.Loopback {
		return nil
	}
	return join(
		address,
		asm.Instructions{asm.JNE.Imm(asm.R5, unix.IPPROTO_TCP, otherwise)},
		loadBE(asm.R1, asm.R7, port, asm.Half),
		asm.Instructions{asm.JEq.Imm(asm.R1, int32(b.BridgePort), "pass")},
	)
}

// known lets TCP, UDP and the echo of ping pass.
func known(icmp int32, otherwise string) asm.Instructions {
	return asm.Instructions{
		asm.JEq.Imm(asm.R5, unix.IPPROTO_TCP, "pass"), asm.JEq.Imm(asm.R5, unix.IPPROTO_UDP, "pass"),
		asm.JEq.Imm(asm.R5, icmp, "pass"), always(otherwise),
	}
}

// wire4 is for what is not settled on lo. From a published port only TCP goes
// out that belongs to a connection which somebody else has begun. A neighbour
// reaches no server on loopback, whatever route_localnet says.
func (b builder) wire4(d direction) asm.Instructions {
	if !b.Published {
		return asm.Instructions{always("refuse")}
	}
	return join(
		asm.Instructions{
			asm.JEq.Imm(asm.R9, firstIndex, "published4"), asm.Mov.Reg(asm.R4, asm.R3),
			asm.RSh.Imm(asm.R4, loopbackRest), asm.JEq.Imm(asm.R4, loopbackNet, "refuse"),
		},
		labelled("published4", b.published(d, within(flagSight4), ip4Header)),
	)
}

// published lets others in, and answers out.
func (b builder) published(d direction, sight asm.Instructions, header int16) asm.Instructions {
	if !d.outgoing {
		return asm.Instructions{always("pass")}
	}
	return join(asm.Instructions{asm.JNE.Imm(asm.R5, unix.IPPROTO_TCP, "refuse")}, sight, answers(header))
}

// answers lets TCP pass but for the packet that begins a connection. It has to
// be of a stream socket: a raw one can say ACK, and send what it likes.
func answers(header int16) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R7, header+tcpFlags, asm.Byte),
		asm.And.Imm(asm.R1, synAck), asm.JEq.Imm(asm.R1, syn, "refuse"),
		asm.LoadMem(asm.R1, asm.R6, skbSocket, asm.DWord), asm.JEq.Imm(asm.R1, 0, "refuse"),
		asm.FnSkFullsock.Call(), asm.JEq.Imm(asm.R0, 0, "refuse"),
		asm.LoadMem(asm.R1, asm.R0, socketType, asm.Word),
		asm.JEq.Imm(asm.R1, unix.SOCK_STREAM, "pass"), always("refuse"),
	}
}

// labelled puts a label before code.
func labelled(label string, code asm.Instructions) asm.Instructions {
	code[0] = code[0].WithSymbol(label)
	return code
}
