package hardening

import (
	"fmt"
	"math"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

const (
	unlimited = math.MaxUint64 // RLIM_INFINITY
	// defaultFiles is what programs get that do not ask for more: those that use
	// select(2) cannot have more.
	defaultFiles = 1024
)

// ceilings are the most that each limit may be, whoever asks. Where there is
// none, a limit only restrains the process itself, or the cgroup counts what it
// is about: RLIMIT_NPROC counts the processes of a user in all containers, so
// that lowering it here would fail forks for what others do.
var ceilings = map[string]uint64{
	"RLIMIT_AS": unlimited, "RLIMIT_CPU": unlimited, "RLIMIT_DATA": unlimited, "RLIMIT_LOCKS": unlimited,
	"RLIMIT_NPROC": unlimited, "RLIMIT_RSS": unlimited, "RLIMIT_RTTIME": unlimited, "RLIMIT_STACK": unlimited,
	"RLIMIT_CORE": 0,
	// The kernel's own defaults for a process without privileges; above them one
	// could lock or queue more than others can, or schedule itself before them.
	"RLIMIT_MEMLOCK": 8 << 20, "RLIMIT_MSGQUEUE": 819200, "RLIMIT_NICE": 0, "RLIMIT_RTPRIO": 0,
	"RLIMIT_SIGPENDING": 1 << 17,
	// By policy, see below.
	"RLIMIT_NOFILE": unlimited, "RLIMIT_FSIZE": unlimited,
}

func (h *processor) rlimits() error {
	seen := map[string]bool{}
	for i := range h.proc.Rlimits {
		l := &h.proc.Rlimits[i]
		field := fmt.Sprintf("process.rlimits[%d]", i)
		ceiling, ok := h.ceiling(l.Type)
		switch {
		case !ok:
			// runc's phrase.
			return invalid(field, "wrong rlimit value: %.40s", l.Type)
		case seen[l.Type]:
			return invalid(field, "saw %s twice", l.Type)
		case l.Soft > l.Hard:
			return invalid(field, "saw a soft limit of %d above the hard one of %d for %s", l.Soft, l.Hard, l.Type)
		}
		seen[l.Type] = true
		was := *l
		l.Soft, l.Hard = min(l.Soft, ceiling), min(l.Hard, ceiling)
		h.tighten(field, rlimitText(was), rlimitText(*l), "the most that the policy leaves")
	}
	h.addRlimits(seen)
	return nil
}

func (h *processor) ceiling(name string) (uint64, bool) {
	ceiling, ok := ceilings[name]
	switch {
	case name == "RLIMIT_NOFILE":
		ceiling = h.maxFiles()
	case name == "RLIMIT_FSIZE" && h.policy.Process.MaxFileBytes != 0:
		ceiling = h.policy.Process.MaxFileBytes
	}
	return ceiling, ok
}

func (h *processor) maxFiles() uint64 {
	if n := h.policy.Process.MaxOpenFiles; n != 0 {
		return n
	}
	return defaultFiles
}

// addRlimits sets what would otherwise be inherited from the engine.
func (h *processor) addRlimits(seen map[string]bool) {
	limits := []specs.POSIXRlimit{
		{Type: "RLIMIT_CORE"},
		{Type: "RLIMIT_NOFILE", Soft: min(defaultFiles, h.maxFiles()), Hard: h.maxFiles()},
	}
	if size := h.policy.Process.MaxFileBytes; size != 0 {
		limits = append(limits, specs.POSIXRlimit{Type: "RLIMIT_FSIZE", Soft: size, Hard: size})
	}
	limits = slices.DeleteFunc(limits, func(l specs.POSIXRlimit) bool { return seen[l.Type] })
	for _, l := range limits {
		h.proc.Rlimits = append(h.proc.Rlimits, l)
		h.add("process.rlimits", rlimitText(l), "absent would be what the engine itself has")
	}
}

func rlimitText(l specs.POSIXRlimit) string {
	return fmt.Sprintf("%s soft %s hard %s", l.Type, limitText(l.Soft), limitText(l.Hard))
}

func limitText(n uint64) string {
	if n == unlimited {
		return "unlimited"
	}
	return fmt.Sprint(n)
}
