// Package seccomp builds sage's own seccomp filter, the second layer, which is
// loaded beneath whatever profile a bundle brings: the rules as a table, and
// an assembler that turns them into the kernel's classic BPF. It does not load
// the filter, and it does not know the bundle's own profile.
package seccomp

import (
	"errors"
	"fmt"
)

// ErrArch is returned for an architecture whose call numbers this package does
// not hold.
var ErrArch = errors.New("no system call table")

// Arch is the instruction set whose calls are filtered; every other one that
// the kernel can run, 32-bit programs included, is killed.
type Arch uint8

// The zero Arch is none, and no program is built for it.
const (
	AMD64 Arch = iota + 1
	ARM64
)

// String gives the name that Go uses for the architecture.
func (a Arch) String() string {
	switch a {
	case AMD64:
		return "amd64"
	case ARM64:
		return "arm64"
	}
	return fmt.Sprintf("arch(%d)", uint8(a))
}

// ParseArch takes a name as runtime.GOARCH has it.
func ParseArch(goarch string) (Arch, error) {
	for _, a := range []Arch{AMD64, ARM64} {
		if goarch == a.String() {
			return a, nil
		}
	}
	return 0, fmt.Errorf("%w: saw architecture %.32q, want amd64 or arm64", ErrArch, goarch)
}

// Network is what kind of socket a program may make.
type Network uint8

// NetworkNone leaves socketpair and the sockets that the container was given.
// The others add to it the internet families, AF_UNIX, or both, and the route
// protocol of netlink, which the C library asks for addresses.
const (
	NetworkNone Network = iota
	NetworkInet
	NetworkUnix
	NetworkInetUnix
)

func (n Network) String() string {
	switch n {
	case NetworkNone:
		return "none"
	case NetworkInet:
		return "inet"
	case NetworkUnix:
		return "unix"
	case NetworkInetUnix:
		return "inet+unix"
	}
	return fmt.Sprintf("network(%d)", uint8(n))
}

// Listen is from where others may connect to a program.
type Listen uint8

// ListenLoopback and ListenAny give the same filter: an address lies in
// memory, where a filter cannot look, so the network guard tells them apart.
const (
	ListenDeny Listen = iota
	ListenLoopback
	ListenAny
)

func (l Listen) String() string {
	switch l {
	case ListenDeny:
		return "deny"
	case ListenLoopback:
		return "loopback"
	case ListenAny:
		return "any"
	}
	return fmt.Sprintf("listen(%d)", uint8(l))
}

// Policy selects one variant of the filter. All but Arch may be left zero,
// which is the strictest.
type Policy struct {
	Arch    Arch
	Network Network
	Listen  Listen
	// AllowPtrace is for debuggers, strace and LeakSanitizer. Memory of other
	// processes stays closed by any other way.
	AllowPtrace bool
	// AllowNoRandomize lets personality(2) turn off address randomisation, as
	// gdb and setarch -R do.
	AllowNoRandomize bool
}

// String names the variant, for a listing and for people.
func (p Policy) String() string {
	return fmt.Sprintf("%v network=%v listen=%v ptrace=%t norandomize=%t",
		p.Arch, p.Network, p.Listen, p.AllowPtrace, p.AllowNoRandomize)
}

// feature is a set of what a policy turns on, as the rules ask for it.
type feature uint8

const (
	sockets feature = 1 << iota // of any family
	inet
	local // AF_UNIX
	listen
	ptrace
	noRandomize
)

// features treats a value that is none of the named ones as the zero value.
func (p Policy) features() feature {
	var f feature
	switch p.Network {
	case NetworkNone:
	case NetworkInet:
		f = sockets | inet
	case NetworkUnix:
		f = sockets | local
	case NetworkInetUnix:
		f = sockets | inet | local
	}
	return f |
		listen.when(p.Listen == ListenLoopback || p.Listen == ListenAny) |
		ptrace.when(p.AllowPtrace) |
		noRandomize.when(p.AllowNoRandomize)
}

func (f feature) when(on bool) feature {
	if on {
		return f
	}
	return 0
}
