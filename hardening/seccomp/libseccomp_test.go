//go:build seccomp

package seccomp

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/net/bpf"
)

// beyond are the calls whose rules libseccomp cannot express, since it takes
// no rule that allows when the default allows, and no two comparisons of one
// argument in a rule. Beside them it cannot express the prologue: ENOSYS above
// a number, and another verdict for x32 than for foreign architectures.
var beyond = []string{"personality", "socket", "socketpair", "unshare"}

// TestAgainstLibseccomp has libseccomp make a filter of the rules that it can
// express, and compares it with ours over the corpus. It knows numbers of this
// machine's architecture only: it translates others by name, and the names of
// newer calls it does not have.
//
// Proves: S-106.
func TestAgainstLibseccomp(t *testing.T) {
	arch, err := ParseArch(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	major, minor, micro := libseccomp.GetLibraryVersion()
	t.Logf("libseccomp %d.%d.%d", major, minor, micro)
	for _, p := range []Policy{strict, client, agent} {
		p.Arch = arch
		t.Run(p.String(), func(t *testing.T) {
			code, left := libseccompProgram(t, p)
			want := slices.Clone(beyond)
			if p.Network == NetworkNone { // denied whatever the arguments are
				want = slices.DeleteFunc(want, func(name string) bool { return name == "socket" })
			}
			if diff := cmp.Diff(want, left); diff != "" {
				t.Errorf("cannot be expressed (-want +got):\n%s", diff)
			}
			theirs, ours := newMachine(t, code), newMachine(t, build(t, p).Instructions())
			compared := 0
			corpus(p, func(c call) {
				if c.nr > maxCall || slices.Contains(left, arch.name(c.nr)) {
					return
				}
				compared++
				if want, got := theirs.verdict(t, c), ours.verdict(t, c); got != want {
					t.Fatalf("%s, %#x: got %v, libseccomp's filter says %v", arch.name(c.nr), c, got, want)
				}
			})
			t.Logf("%d calls compared; libseccomp's program has %d instructions", compared, len(code))
		})
	}
}

// libseccompProgram also returns the calls that it had to leave out.
func libseccompProgram(t *testing.T, p Policy) ([]bpf.RawInstruction, []string) {
	t.Helper()
	filter, err := libseccomp.NewFilter(libseccomp.ActAllow)
	if err != nil {
		t.Fatal(err)
	}
	defer filter.Release()
	var left []string
	for _, row := range rules() {
		r, ok := row.under(p.features())
		switch {
		case !ok:
		case r.verdict != Allow && len(r.clauses) > 0:
			left = append(left, strings.Fields(r.calls)...)
		default:
			addRule(t, filter, p.Arch, r)
		}
	}
	slices.Sort(left)
	return export(t, filter), left
}

func addRule(t *testing.T, filter *libseccomp.ScmpFilter, arch Arch, r rule) {
	t.Helper()
	numbers, err := arch.numbers(r.calls)
	if err != nil {
		t.Fatal(err)
	}
	clauses := r.clauses
	if len(clauses) == 0 {
		clauses = []clause{{then: r.verdict}}
	}
	for _, nr := range numbers {
		for _, c := range clauses {
			action := libseccomp.ActErrno.SetReturnCode(int16(c.then))
			for _, conds := range alternatives(t, c.conds) {
				if err := filter.AddRuleConditionalExact(libseccomp.ScmpSyscall(nr), action, conds); err != nil {
					t.Fatalf("%s %v: %v", arch.name(nr), conds, err)
				}
			}
		}
	}
}

// alternatives spreads one clause over rules that compare with one value each.
func alternatives(t *testing.T, conds []cond) [][]libseccomp.ScmpCondition {
	t.Helper()
	all := [][]libseccomp.ScmpCondition{nil}
	for _, c := range conds {
		var longer [][]libseccomp.ScmpCondition
		for _, so := range all {
			for _, one := range values(t, c) {
				longer = append(longer, append(slices.Clone(so), one))
			}
		}
		all = longer
	}
	return all
}

func values(t *testing.T, c cond) []libseccomp.ScmpCondition {
	t.Helper()
	if c.high {
		t.Fatalf("a condition on an upper half is not one of libseccomp's: %v", c)
	}
	var out []libseccomp.ScmpCondition
	add := func(mask, value uint32) {
		made, err := libseccomp.MakeCondition(uint(c.arg), libseccomp.CompareMaskedEqual, uint64(mask), uint64(value))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, made)
	}
	for _, v := range c.oneOf {
		add(c.mask, v)
	}
	for bit := uint32(1); bit != 0; bit <<= 1 {
		if c.anyBit&bit != 0 {
			add(bit, bit)
		}
	}
	return out
}

func export(t *testing.T, filter *libseccomp.ScmpFilter) []bpf.RawInstruction {
	t.Helper()
	name := filepath.Join(t.TempDir(), "filter")
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := filter.ExportBPF(file); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(name)
	if err != nil || len(raw) == 0 || len(raw)%8 != 0 {
		t.Fatalf("exported filter: got %d bytes, %v", len(raw), err)
	}
	var code []bpf.RawInstruction
	for b := range slices.Chunk(raw, 8) {
		code = append(code, bpf.RawInstruction{
			Op: binary.LittleEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.LittleEndian.Uint32(b[4:]),
		})
	}
	return code
}
