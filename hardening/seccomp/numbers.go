package seccomp

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// absent names the calls of the rules that an architecture does not have. It
// is written down so that a name that is merely spelled wrong, which would be
// a hole, is told from one that is not needed.
var absent = map[Arch]string{
	AMD64: "stime",
	ARM64: "uselib _sysctl vserver tuxcall afs_syscall modify_ldt create_module get_kernel_syms query_module " +
		"iopl ioperm stime ustat sysfs mknod",
}

// names are the calls of an architecture by number, "" where there is none.
func (a Arch) names() []string {
	switch a {
	case AMD64:
		return namesAMD64[:]
	case ARM64:
		return namesARM64[:]
	}
	return nil
}

// name is what a listing calls a number.
func (a Arch) name(nr uint32) string {
	if names := a.names(); int(nr) < len(names) {
		return names[nr]
	}
	return ""
}

// numbers finds every call of a rule. One that is neither in the table nor
// known to be absent is an error, and no filter is built: one that leaves out
// what it cannot resolve is a filter with a hole.
func (a Arch) numbers(calls string) ([]uint32, error) {
	index := byName[a]()
	numbers := make([]uint32, 0, 1+strings.Count(calls, " "))
	for name := range strings.FieldsSeq(calls) {
		nr, ok := index[name]
		switch {
		case ok:
			numbers = append(numbers, nr)
		case !slices.Contains(strings.Fields(absent[a]), name):
			return nil, fmt.Errorf("system call %s has no number on %v", name, a)
		}
	}
	return numbers, nil
}

var byName = map[Arch]func() map[string]uint32{AMD64: sync.OnceValue(AMD64.index), ARM64: sync.OnceValue(ARM64.index)}

// index is the table the other way round.
func (a Arch) index() map[string]uint32 {
	index := make(map[string]uint32, len(a.names()))
	for nr, name := range a.names() {
		if name != "" {
			index[name] = uint32(nr)
		}
	}
	return index
}
