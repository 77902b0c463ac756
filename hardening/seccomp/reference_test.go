package seccomp

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"
)

// judge is the second opinion: it reads the table from top to bottom for every
// call, by name, with none of the spans, labels and jumps of the program.
func judge(p Policy, c call) Action {
	switch {
	case c.arch != archTokens[p.Arch]:
		return KillProcess
	case c.nr > maxCall:
		return errNoSys
	}
	for _, r := range rulesOf[p.Arch.names()[c.nr]] {
		if has(p, r.given) && (r.unless == 0 || !has(p, r.unless)) {
			return judgeRule(p, r, c)
		}
	}
	return Allow
}

// rulesOf keeps the order of the table.
var rulesOf = func() map[string][]rule {
	byName := map[string][]rule{}
	for _, r := range rules() {
		for name := range strings.FieldsSeq(r.calls) {
			byName[name] = append(byName[name], r)
		}
	}
	return byName
}()

func judgeRule(p Policy, r rule, c call) Action {
	for _, cl := range r.clauses {
		holds := has(p, cl.given)
		for _, cond := range cl.conds {
			holds = holds && judgeCond(cond, c)
		}
		if holds {
			return cl.then
		}
	}
	return r.verdict
}

func judgeCond(c cond, from call) bool {
	value := from.args[c.arg] % (1 << 32)
	if c.high {
		value = from.args[c.arg] / (1 << 32)
	}
	value &= uint64(c.mask)
	if c.anyBit != 0 {
		return value&uint64(c.anyBit) > 0
	}
	for _, v := range c.oneOf {
		if uint64(v) == value {
			return true
		}
	}
	return false
}

// has asks the policy itself, not the set that it is turned into.
func has(p Policy, f feature) bool {
	switch f {
	case 0:
		return true
	case sockets:
		return p.Network != NetworkNone
	case inet:
		return p.Network == NetworkInet || p.Network == NetworkInetUnix
	case local:
		return p.Network == NetworkUnix || p.Network == NetworkInetUnix
	case listen:
		return p.Listen != ListenDeny
	case ptrace:
		return p.AllowPtrace
	case noRandomize:
		return p.AllowNoRandomize
	}
	panic("no policy has this feature")
}

// interesting are values around everything that a rule compares an argument
// with. An argument that no rule of the call looks at has none.
func interesting(name string, arg int) []uint64 {
	var values []uint64
	for _, r := range rulesOf[name] {
		for _, cl := range r.clauses {
			for _, c := range cl.conds {
				if c.arg == arg {
					values = append(values, around(c)...)
				}
			}
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

func around(c cond) []uint64 {
	values := []uint64{0, 0x7fffffff, 0xffffffff, uint64(c.anyBit), uint64(^c.anyBit), uint64(c.mask), uint64(^c.mask)}
	for _, v := range c.oneOf {
		v := uint64(v)
		values = append(values, v, (v-1)&0xffffffff, (v+1)&0xffffffff, v|uint64(^c.mask))
	}
	for bit := range 32 {
		if c.anyBit != 0 || len(c.oneOf) == 1 && c.mask != ^uint32(0) {
			values = append(values, 1<<bit)
		}
	}
	return values
}

// corpus visits every call with every combination of the interesting values,
// each also with the upper halves set: all, and of one argument alone.
func corpus(p Policy, visit func(call)) {
	for nr := range uint32(maxCall + 2) {
		combine(p, nr, func(c call) {
			visit(c)
			for i := range 3 {
				one := c
				one.args[i] |= 1 << 32
				visit(one)
			}
			for i := range c.args {
				c.args[i] |= 0xffffffff << 32
			}
			visit(c)
		})
	}
}

func combine(p Policy, nr uint32, visit func(call)) {
	name := p.Arch.name(nr)
	values := [3][]uint64{}
	for i := range values {
		if values[i] = interesting(name, i); name == "" || values[i] == nil {
			values[i] = []uint64{0}
		}
	}
	for _, x := range values[0] {
		for _, y := range values[1] {
			for _, z := range values[2] {
				visit(call{arch: archTokens[p.Arch], nr: nr, args: a(x, y, z)})
			}
		}
	}
}

// TestAgainstReference compares each program with the second opinion over the
// corpus, and over as many calls again at random.
//
// Proves: S-106.
func TestAgainstReference(t *testing.T) {
	for _, p := range variants() {
		if p.Listen == ListenAny {
			continue // the program of ListenLoopback; see TestListenVariants
		}
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, build(t, p).Instructions())
			corpus(p, func(c call) { compare(t, m, p, c) })
			rng := rand.New(rand.NewPCG(1, 2))
			for range 20000 {
				compare(t, m, p, random(rng, p))
			}
		})
	}
}

// compare runs a million times, so it is no t.Helper, which is slow.
func compare(t testing.TB, m machine, p Policy, c call) {
	if got, want := m.verdict(t, c), judge(p, c); got != want {
		t.Fatalf("%v: %s, %#x: got %v, want %v", p, p.Arch.name(c.nr), c, got, want)
	}
}

// random prefers the numbers that exist, and small values of arguments.
func random(rng *rand.Rand, p Policy) call {
	c := call{arch: archTokens[p.Arch], nr: rng.Uint32N(maxCall + 8)}
	for i := range c.args {
		c.args[i] = rng.Uint64() >> rng.UintN(64)
	}
	switch rng.UintN(20) {
	case 0:
		c.nr = rng.Uint32()
	case 1:
		c.arch = rng.Uint32()
	}
	return c
}

func FuzzProgram(f *testing.F) {
	all := variants()
	machines := make([]machine, len(all))
	for i, p := range all {
		machines[i] = newMachine(f, build(f, p).Instructions())
	}
	f.Add(uint8(0), uint32(16), uint64(0), uint64(1<<32|0x5412), uint64(0))
	f.Add(uint8(47), uint32(41), uint64(2), uint64(10), uint64(3))
	f.Add(uint8(95), uint32(97), uint64(0x10000000), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, variant uint8, nr uint32, x, y, z uint64) {
		i := int(variant) % len(all)
		compare(t, machines[i], all[i], call{arch: archTokens[all[i].Arch], nr: nr, args: a(x, y, z)})
	})
}

// hot are calls that programs make in loops. On them the filter must cost
// nothing: the kernel finds out, when it loads a filter, which calls it allows
// without looking at an argument, and does not run it for those.
var hot = []string{
	"read", "write", "readv", "writev", "pread64", "pwrite64", "openat", "close", "fstat", "newfstatat", "statx",
	"lseek", "mmap", "munmap", "mprotect", "madvise", "brk", "futex", "getppid", "getpid", "gettid", "sched_yield",
	"epoll_pwait", "epoll_ctl", "ppoll", "nanosleep", "clock_nanosleep", "clock_gettime", "recvmsg", "sendmsg",
	"recvfrom", "sendto", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "wait4", "execve", "fcntl", "getdents64",
	"getrandom", "io_getevents", "timerfd_settime", "tgkill", "fsync", "splice", "epoll_wait", "poll", "select",
	"open", "stat", "lstat", "access", "fork", "vfork",
}

// TestHotCalls follows each program as the kernel's emulator does.
func TestHotCalls(t *testing.T) {
	for _, p := range variants() {
		code := build(t, p).Instructions()
		for _, name := range hot {
			nr := slices.Index(p.Arch.names(), name)
			if nr < 0 {
				continue // amd64 only
			}
			got, constant := emulate(code, call{arch: archTokens[p.Arch], nr: uint32(nr)})
			if !constant || got != Allow {
				t.Errorf("%v: %s: got %v, constant %t; want a constant allow", p, name, got, constant)
			}
		}
	}
}

// TestArgumentCalls: these calls and no others run the filter and go on.
func TestArgumentCalls(t *testing.T) {
	want := []string{"clone", "ioctl", "mknod", "mknodat", "personality", "prctl", "setsockopt", "socket", "socketpair", "unshare"}
	p := agent
	p.Arch = AMD64
	code := build(t, p).Instructions()
	var got []string
	for nr := range uint32(maxCall + 1) {
		if _, constant := emulate(code, call{arch: archTokens[AMD64], nr: nr}); !constant {
			got = append(got, p.Arch.name(nr))
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls whose arguments are looked at (-want +got):\n%s", diff)
	}
}

// emulate returns false when the verdict needs more than number and
// architecture, or an instruction that the kernel's emulator does not know.
func emulate(code []bpf.RawInstruction, c call) (Action, bool) {
	var acc uint32
	for pc := 0; pc < len(code); pc++ {
		switch ins := code[pc]; {
		case ins.Op == opLoad && ins.K == offNumber:
			acc = c.nr
		case ins.Op == opLoad && ins.K == offArch:
			acc = c.arch
		case ins.Op == opAnd:
			acc &= ins.K
		case ins.Op == opJump:
			pc += int(ins.K)
		case ins.Op == opReturn:
			return Action(ins.K), true
		case holds(ins, acc):
			pc += int(ins.Jt)
		case ins.Op == opEqual || ins.Op == opAtMost || ins.Op == opBits:
			pc += int(ins.Jf)
		default:
			return 0, false
		}
	}
	return 0, false
}

func holds(ins bpf.RawInstruction, acc uint32) bool {
	switch ins.Op {
	case opEqual:
		return acc == ins.K
	case opAtMost:
		return acc >= ins.K
	case opBits:
		return acc&ins.K != 0
	}
	return false
}
