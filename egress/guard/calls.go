package guard

import (
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Offsets in struct bpf_sock_addr; addresses and the port are in network order.
const (
	addrIP4      = 4
	addrIP6      = 8
	addrPort     = 24
	addrProtocol = 36
)

// calls4 decides about the address that a system call names, in R2.
func (b builder) calls4(decide func() asm.Instructions) asm.Instructions {
	return join(
		asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)},
		loadBE(asm.R2, asm.R6, addrIP4, asm.Word),
		decide(), b.refused(unix.ENETUNREACH),
	)
}

// calls6 takes an IPv4 address out of an IPv6 one that is mapped: the kernel
// connects to that. :: and ::1 are left to local; nothing else is reached.
func (b builder) calls6(decide, local func() asm.Instructions) asm.Instructions {
	return join(
		asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.LoadMem(asm.R1, asm.R6, addrIP6, asm.Word), asm.JNE.Imm(asm.R1, 0, "refuse"),
			asm.LoadMem(asm.R1, asm.R6, addrIP6+4, asm.Word), asm.JNE.Imm(asm.R1, 0, "refuse"),
		},
		loadBE(asm.R2, asm.R6, addrIP6+12, asm.Word),
		loadBE(asm.R1, asm.R6, addrIP6+8, asm.Word),
		asm.Instructions{
			asm.JEq.Imm(asm.R1, 0xffff, "mapped"), asm.JNE.Imm(asm.R1, 0, "refuse"),
			asm.JGT.Imm(asm.R2, 1, "refuse"),
		},
		local(),
		labelled("mapped", decide()), b.refused(unix.ENETUNREACH),
	)
}

// refused ends a program with the error that a program is to see.
func (b builder) refused(errno unix.Errno) asm.Instructions {
	if !b.errno {
		return verdicts()
	}
	return verdicts(asm.Mov.Imm(asm.R1, -int32(errno)), asm.FnSetRetval.Call())
}

// reach4 says what may be connected and sent to. 0.0.0.0 stands for 127.0.0.1 in
// connect(2), as Linux has it. Where the packet goes is for the wall to check.
func (b builder) reach4() asm.Instructions {
	return join(
		when(b.Loopback || b.BridgePort != 0, asm.JEq.Imm(asm.R2, 0, "loopback4")),
		when(b.Loopback, asm.JEq.Imm(asm.R2, dockerDNS, "refuse"),
			asm.Mov.Reg(asm.R4, asm.R2), asm.RSh.Imm(asm.R4, loopbackRest), asm.JEq.Imm(asm.R4, loopbackNet, "pass")),
		b.synthetic(asm.R2, "pass"),
		when(b.BridgePort != 0 && !b.Loopback, asm.JEq.Imm(asm.R2, localhost, "loopback4")),
		asm.Instructions{always("refuse")},
		b.reachLoopback("loopback4"),
	)
}

// reach6 has ::1 or :: in hand, and what is not for it goes nowhere.
func (b builder) reach6() asm.Instructions {
	if !b.Loopback && b.BridgePort == 0 {
		return asm.Instructions{always("refuse")}
	}
	return b.reachLoopback("loopback6")
}

// reachLoopback passes all of it, or the bridge alone.
func (b builder) reachLoopback(label string) asm.Instructions {
	switch {
	case b.Loopback:
		return labelled(label, asm.Instructions{always("pass")})
	case b.BridgePort == 0:
		return nil
	}
	return join(
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.R6, addrProtocol, asm.Word).WithSymbol(label),
			asm.JNE.Imm(asm.R1, unix.IPPROTO_TCP, "refuse"),
			asm.LoadMem(asm.R1, asm.R6, addrPort, asm.Word), asm.HostTo(asm.BE, asm.R1, asm.Half),
			asm.JEq.Imm(asm.R1, int32(b.BridgePort), "pass"), always("refuse"),
		},
	)
}

// ports refuses a port that was chosen. The address does not matter: what is
// bound to it is reached by the wall's leave only.
func (b builder) ports() asm.Instructions {
	return join(
		asm.Instructions{asm.LoadMem(asm.R1, asm.R1, addrPort, asm.Word), asm.JEq.Imm(asm.R1, 0, "pass")},
		b.refused(unix.EACCES),
	)
}
