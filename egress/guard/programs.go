package guard

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
)

// Program is one of a guard's, as it goes to the kernel.
type Program struct {
	Kind         Kind
	Instructions []byte // of struct bpf_insn
}

// Kind is where a program is attached, by the name that bpftool(8) has for it.
type Kind string

// The kinds; what they decide stands in the README.
const (
	Egress   Kind = "cgroup_inet_egress"
	Ingress  Kind = "cgroup_inet_ingress"
	Connect4 Kind = "cgroup_inet4_connect"
	Connect6 Kind = "cgroup_inet6_connect"
	Sendmsg4 Kind = "cgroup_udp4_sendmsg"
	Sendmsg6 Kind = "cgroup_udp6_sendmsg"
	Bind4    Kind = "cgroup_inet4_bind"
	Bind6    Kind = "cgroup_inet6_bind"
)

// Kinds are all that a guard may have.
func Kinds() []Kind {
	return []Kind{Egress, Ingress, Connect4, Connect6, Sendmsg4, Sendmsg6, Bind4, Bind6}
}

// kinds are those that a guard for o has.
func (o Options) kinds() []Kind {
	if o.bindsChecked() {
		return Kinds()
	}
	return Kinds()[:6]
}

// places says how the kernel calls them: type of program and place.
var places = map[Kind]sys.CgroupProgram{
	Egress:   {Type: unix.BPF_PROG_TYPE_CGROUP_SKB, Attach: unix.BPF_CGROUP_INET_EGRESS, Name: "sage_egress"},
	Ingress:  {Type: unix.BPF_PROG_TYPE_CGROUP_SKB, Attach: unix.BPF_CGROUP_INET_INGRESS, Name: "sage_ingress"},
	Connect4: {Type: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, Attach: unix.BPF_CGROUP_INET4_CONNECT, Name: "sage_connect4"},
	Connect6: {Type: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, Attach: unix.BPF_CGROUP_INET6_CONNECT, Name: "sage_connect6"},
	Sendmsg4: {Type: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, Attach: unix.BPF_CGROUP_UDP4_SENDMSG, Name: "sage_sendmsg4"},
	Sendmsg6: {Type: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, Attach: unix.BPF_CGROUP_UDP6_SENDMSG, Name: "sage_sendmsg6"},
	Bind4:    {Type: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, Attach: unix.BPF_CGROUP_INET4_BIND, Name: "sage_bind4"},
	Bind6:    {Type: unix.BPF_PROG_TYPE_CGROUP_SOCK_ADDR, Attach: unix.BPF_CGROUP_INET6_BIND, Name: "sage_bind6"},
}

// Build gives the programs for o, the wall first. With errno false the calls
// are refused with EPERM: bpf_set_retval, by which a program says another
// error, came with Linux 5.18.
func Build(o Options, errno bool) ([]Program, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b := builder{Options: o, errno: errno}
	programs := make([]Program, 0, len(places))
	for _, kind := range o.kinds() {
		instructions, err := assemble(b.code(kind))
		if err != nil {
			return nil, errcode.Wrap(errcode.NetworkGuardFailed, "assemble the network guard", fmt.Errorf("%s: %w", kind, err))
		}
		programs = append(programs, Program{Kind: kind, Instructions: instructions})
	}
	return programs, nil
}

func (b builder) code(kind Kind) asm.Instructions {
	switch kind {
	case Egress:
		return b.packets(outgoing)
	case Ingress:
		return b.packets(incoming)
	case Connect4, Sendmsg4:
		return b.calls4(b.reach4)
	case Connect6, Sendmsg6:
		return b.calls6(b.reach4, b.reach6)
	case Bind4, Bind6:
		return b.ports()
	}
	return verdicts()
}
