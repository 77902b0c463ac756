package seccomp

import "fmt"

// Action is what the kernel does with a call, in the form in which a filter
// returns it (SECCOMP_RET_*). The zero Action kills the thread, so a verdict
// that somebody forgot to set does not let a call through.
type Action uint32

const (
	// Allow lets the call through to the next filter, or to the kernel.
	Allow Action = 0x7fff0000
	// KillProcess ends every thread with SIGSYS.
	KillProcess Action = 0x80000000

	failWith Action = 0x00050000
)

// The errors that rules answer with; the numbers are the same on every
// architecture of this package.
const (
	errPerm     = failWith | 1
	errNoEnt    = failWith | 2
	errNoSys    = failWith | 38
	errNoOpt    = failWith | 92 // ENOPROTOOPT
	errNoProto  = failWith | 93 // EPROTONOSUPPORT
	errNoSupp   = failWith | 95 // EOPNOTSUPP
	errNoFamily = failWith | 97 // EAFNOSUPPORT
)

var actionNames = map[Action]string{
	Allow: "allow", KillProcess: "kill_process",
	errPerm: "EPERM", errNoEnt: "ENOENT", errNoSys: "ENOSYS", errNoOpt: "ENOPROTOOPT",
	errNoProto: "EPROTONOSUPPORT", errNoSupp: "EOPNOTSUPP", errNoFamily: "EAFNOSUPPORT",
}

// String is the error's name, allow, or kill_process.
func (a Action) String() string {
	if name, ok := actionNames[a]; ok {
		return name
	}
	return fmt.Sprintf("%#08x", uint32(a))
}

// rule is one row of the table: what happens to the calls that it names. The
// first clause that matches decides, and the verdict if none does.
type rule struct {
	calls   string // separated by spaces, as the kernel spells them
	clauses []clause
	verdict Action
	given   feature // the rule counts only where the policy has all of these
	unless  feature // and none of these
}

// clause decides when all its conditions hold.
type clause struct {
	given feature
	conds []cond
	then  Action
}

// cond looks at one half of one argument. An argument is 64 bits wide and the
// kernel cuts most of them to an int, so a rule that compared all 64 would be
// passed by by setting a bit above: see where [argument.upper] is used.
type cond struct {
	arg    int
	high   bool     // the upper 32 bits, not the lower
	mask   uint32   // applied before comparing
	oneOf  []uint32 // the values that match, or
	anyBit uint32   // the bits of which one must be set
}

// argument is a place to look at, which becomes a [cond] by saying for what.
type argument cond

func arg(n int) argument { return argument{arg: n, mask: ^uint32(0)} }

// masked ignores the bits that are not in mask.
func (a argument) masked(mask uint32) argument { a.mask = mask; return a }

// upper is the high half, for the few parameters that the kernel reads whole.
func (a argument) upper() argument { a.high = true; return a }

func (a argument) is(values ...uint32) cond { a.oneOf = values; return cond(a) }

func (a argument) hasAny(bits uint32) cond { a.anyBit = bits; return cond(a) }

// when makes a clause of conditions that all must hold.
func when(conds ...cond) clause { return clause{conds: conds} }

func (c clause) do(a Action) clause { c.then = a; return c }

// with limits a clause to policies that have the feature.
func (c clause) with(f feature) clause { c.given = f; return c }

// under tells whether the rule counts in a policy with these features, and
// leaves it with the clauses that do.
func (r rule) under(f feature) (rule, bool) {
	if f&r.given != r.given || f&r.unless != 0 {
		return rule{}, false
	}
	var kept []clause
	for _, c := range r.clauses {
		if f&c.given == c.given {
			kept = append(kept, c)
		}
	}
	r.clauses = kept
	return r, true
}
