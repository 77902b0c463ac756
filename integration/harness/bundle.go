package harness

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Bundle is an OCI bundle on disk.
type Bundle struct {
	Dir  string
	Spec *specs.Spec
}

// NewBundle writes a bundle whose config is what the runtime under test prints
// for "spec", without a terminal, on the shared Busybox tree, changed by edit.
func NewBundle(tb testing.TB, edit func(*specs.Spec)) *Bundle {
	tb.Helper()
	b := &Bundle{Dir: TempDir(tb), Spec: DefaultSpec(tb)}
	if edit != nil {
		edit(b.Spec)
	}
	b.Write(tb)
	return b
}

// Write saves the spec after a test changed it.
func (b *Bundle) Write(tb testing.TB) {
	tb.Helper()
	data, err := json.Marshal(b.Spec)
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	b.WriteRaw(tb, data)
}

// WriteRaw puts bytes in the place of config.json, for configs that no spec
// could hold.
func (b *Bundle) WriteRaw(tb testing.TB, config []byte) {
	tb.Helper()
	if err := os.WriteFile(filepath.Join(b.Dir, "config.json"), config, 0o644); err != nil {
		tb.Fatalf("harness: %v", err)
	}
}

// Args is an edit that only sets the command.
func Args(args ...string) func(*specs.Spec) {
	return func(s *specs.Spec) { s.Process.Args = args }
}

var printed sync.Map // runtime's path to the bytes of its "spec"

// DefaultSpec returns a fresh copy of the spec that bundles start from.
func DefaultSpec(tb testing.TB) *specs.Spec {
	tb.Helper()
	bin := Sage(tb)
	data, found := printed.Load(bin)
	if !found {
		data, _ = printed.LoadOrStore(bin, printSpec(tb, bin))
	}
	var s specs.Spec
	if err := json.Unmarshal(data.([]byte), &s); err != nil {
		tb.Fatalf("harness: %s spec: %v", bin, err)
	}
	s.Process.Terminal = false
	s.Root.Path = Busybox(tb)
	s.Root.Readonly = true
	return &s
}

// Not a spec written here: what the runtime under test prints is what its users
// start from, so this proves on the way that it runs.
func printSpec(tb testing.TB, bin string) []byte {
	tb.Helper()
	dir := TempDir(tb)
	if _, err := Output(exec.Command(bin, "spec", "--bundle", dir)); err != nil {
		tb.Fatalf("harness: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	return data
}
