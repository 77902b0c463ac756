package seccomp

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// call is what the kernel shows a filter, struct seccomp_data, but for the
// instruction pointer.
type call struct {
	arch, nr uint32
	args     [6]uint64
}

// bytes writes every word big-endian at the kernel's offset, because the
// interpreter of x/net/bpf reads packets, and the kernel its own words.
func (c call) bytes() []byte {
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[offNumber:], c.nr)
	binary.BigEndian.PutUint32(data[offArch:], c.arch)
	for i, arg := range c.args {
		binary.BigEndian.PutUint32(data[offArgs+8*i:], uint32(arg))
		binary.BigEndian.PutUint32(data[offArgs+8*i+4:], uint32(arg>>32))
	}
	return data
}

// machine runs a program in the interpreter.
type machine struct {
	vm *bpf.VM
}

func newMachine(t testing.TB, raw []bpf.RawInstruction) machine {
	t.Helper()
	var code []bpf.Instruction
	for _, ins := range raw {
		code = append(code, ins.Disassemble())
	}
	vm, err := bpf.NewVM(code)
	if err != nil {
		t.Fatal(err)
	}
	return machine{vm}
}

func (m machine) verdict(t testing.TB, c call) Action {
	got, err := m.vm.Run(c.bytes())
	if err != nil {
		t.Fatal(err)
	}
	return Action(uint32(got))
}

func build(t testing.TB, p Policy) Program {
	t.Helper()
	prog, err := Build(p)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// variants are all policies that there are.
func variants() []Policy {
	var all []Policy
	for _, arch := range []Arch{AMD64, ARM64} {
		for _, network := range []Network{NetworkNone, NetworkInet, NetworkUnix, NetworkInetUnix} {
			for _, listen := range []Listen{ListenDeny, ListenLoopback, ListenAny} {
				for bits := range 4 {
					all = append(all, Policy{arch, network, listen, bits&1 != 0, bits&2 != 0})
				}
			}
		}
	}
	return all
}

// TestGolden shows a change of any rule as a change of a listing: those of the
// variants that the built-in profiles use, and the digests of all.
func TestGolden(t *testing.T) {
	golden(t, "amd64-strict.txt", build(t, Policy{Arch: AMD64}).Listing())
	golden(t, "arm64-strict.txt", build(t, Policy{Arch: ARM64}).Listing())
	inet := Policy{Arch: AMD64, Network: NetworkInet}
	golden(t, "amd64-inet.txt", build(t, inet).Listing())
	unix := Policy{Arch: AMD64, Network: NetworkUnix}
	golden(t, "amd64-unix.txt", build(t, unix).Listing())
	agent := Policy{AMD64, NetworkInetUnix, ListenLoopback, true, true}
	golden(t, "amd64-agent.txt", build(t, agent).Listing())
	agent.Arch = ARM64
	golden(t, "arm64-agent.txt", build(t, agent).Listing())

	var digests strings.Builder
	for _, p := range variants() {
		prog := build(t, p)
		fmt.Fprintf(&digests, "%s  %d  %v\n", prog.Digest(), prog.Len(), p)
	}
	golden(t, "digests.txt", digests.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", name, diff)
	}
}

// TestBytes: what is hashed and loaded is what was assembled, in the kernel's
// layout.
func TestBytes(t *testing.T) {
	prog := build(t, Policy{Arch: AMD64})
	raw := prog.Bytes()
	if len(raw) != 8*prog.Len() {
		t.Fatalf("got %d bytes for %d instructions, want 8 each", len(raw), prog.Len())
	}
	// Load the architecture; skip one instruction if it is amd64's; kill.
	want := "2000000004000000" + "150001003e0000c0" + "0600000000000080"
	if got := hex.EncodeToString(raw[:24]); got != want {
		t.Errorf("starts with %s, want %s", got, want)
	}
	for i, ins := range prog.Instructions() {
		b := raw[8*i:]
		got := bpf.RawInstruction{
			Op: binary.LittleEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.LittleEndian.Uint32(b[4:]),
		}
		if got != ins {
			t.Errorf("instruction %d: got %v, want %v", i, got, ins)
		}
	}
}

func TestInstructionsIsCopy(t *testing.T) {
	prog := build(t, Policy{Arch: AMD64})
	before := prog.Digest()
	prog.Instructions()[2] = bpf.RawInstruction{}
	if got := prog.Digest(); got != before {
		t.Errorf("digest changed from %s to %s by changing what Instructions returned", before, got)
	}
}

// TestShape holds every variant to what the kernel accepts and to the few
// instructions that its emulator knows, which is what makes the bitmap work.
func TestShape(t *testing.T) {
	known := map[uint16]bool{
		opLoad: true, opAnd: true, opJump: true, opEqual: true, opAtMost: true, opBits: true, opReturn: true,
	}
	for _, p := range variants() {
		code := build(t, p).Instructions()
		if len(code) > maxInstructions {
			t.Errorf("%v: %d instructions, want %d at most", p, len(code), maxInstructions)
		}
		reached := make([]bool, len(code))
		reached[0] = true
		for i, ins := range code {
			if !known[ins.Op] {
				t.Errorf("%v: instruction %d has operation %#x", p, i, ins.Op)
			}
			if !reached[i] {
				t.Errorf("%v: nothing leads to instruction %d", p, i)
			}
			for _, to := range exits(i, ins) {
				if to >= len(code) {
					t.Fatalf("%v: instruction %d leads to %d, behind the end", p, i, to)
				}
				reached[to] = true
			}
		}
	}
}

// exits are the instructions that may come after one.
func exits(i int, ins bpf.RawInstruction) []int {
	switch ins.Op {
	case opReturn:
		return nil
	case opJump:
		return []int{i + 1 + int(ins.K)}
	case opEqual, opAtMost, opBits:
		return []int{i + 1 + int(ins.Jt), i + 1 + int(ins.Jf)}
	}
	return []int{i + 1}
}

func TestArch(t *testing.T) {
	for _, want := range []Arch{AMD64, ARM64} {
		got, err := ParseArch(want.String())
		if err != nil || got != want {
			t.Errorf("ParseArch(%q) = %v, %v; want %v", want.String(), got, err, want)
		}
	}
	for _, name := range []string{"", "386", "AMD64", "arch(0)", "riscv64"} {
		if got, err := ParseArch(name); !errors.Is(err, ErrArch) {
			t.Errorf("ParseArch(%q) = %v, %v; want ErrArch", name, got, err)
		}
	}
	for _, arch := range []Arch{0, 3} {
		if _, err := Build(Policy{Arch: arch}); !errors.Is(err, ErrArch) {
			t.Errorf("Build for %v: got %v, want ErrArch", arch, err)
		}
	}
}

// TestUnnamedValues: a number that is no value of an enum opens nothing.
func TestUnnamedValues(t *testing.T) {
	strict := build(t, Policy{Arch: AMD64})
	odd := build(t, Policy{Arch: AMD64, Network: 4, Listen: 3})
	if odd.Digest() != strict.Digest() {
		t.Errorf("Network 4, Listen 3 is not the strictest filter")
	}
}

// TestListenVariants: where one listens from is for the network guard.
func TestListenVariants(t *testing.T) {
	loopback := build(t, Policy{Arch: AMD64, Network: NetworkInet, Listen: ListenLoopback})
	for listen, same := range map[Listen]bool{ListenDeny: false, ListenAny: true} {
		prog := build(t, Policy{Arch: AMD64, Network: NetworkInet, Listen: listen})
		if got := prog.Digest() == loopback.Digest(); got != same {
			t.Errorf("listen %v has the filter of loopback: %t, want %t", listen, got, same)
		}
	}
}

func TestDescribeOther(t *testing.T) {
	got := describe(7, bpf.RawInstruction{Op: 0x16, Jt: 1, Jf: 2, K: 3})
	if want := "0x0016 1 2 0x3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Action(0x7ff00000).String(), "0x7ff00000"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
