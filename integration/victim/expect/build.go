// Package expect says what has to come of everything that the victim tries,
// under each profile, and compares. It is written from the rules and not from
// the product: it knows neither its filter nor how it is made.
package expect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

// Program is the victim's path in a root that Build was given, I386 that of the
// same for the 32-bit table of calls, and Setuid that of a copy with the setuid
// bit, which is nobody's that any container here runs as.
const (
	Program = "/victim"
	I386    = "/victim.386"
	Setuid  = "/victim-setuid"
)

const somebody = 12345

// Build puts the victim into a root file system.
func Build(tb testing.TB, root string) {
	tb.Helper()
	native := filepath.Join(root, Program)
	build(tb, native, runtime.GOARCH)
	if runtime.GOARCH == "amd64" {
		build(tb, filepath.Join(root, I386), "386")
	}
	setuid := filepath.Join(root, Setuid)
	if _, err := harness.Output(exec.CommandContext(tb.Context(), "cp", native, setuid)); err != nil {
		tb.Fatal(err)
	}
	if err := os.Chown(setuid, somebody, somebody); err != nil {
		tb.Fatal(err)
	}
	if err := os.Chmod(setuid, 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
		tb.Fatal(err)
	}
}

var built struct {
	sync.Mutex
	programs map[string][]byte // by architecture
}

// build is static, and not position independent, so that the victim's own data
// has addresses that fit an i386 call.
func build(tb testing.TB, out, arch string) {
	tb.Helper()
	built.Lock()
	defer built.Unlock()
	if program, found := built.programs[arch]; found {
		if err := os.WriteFile(out, program, 0o755); err != nil {
			tb.Fatal(err)
		}
		return
	}
	cmd := exec.CommandContext(tb.Context(), "go", "build", "-buildmode=exe", "-ldflags=-s -w", "-o", out, "./integration/victim")
	cmd.Dir = harness.Top(tb)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if _, err := harness.Output(cmd); err != nil {
		tb.Fatalf("build the victim for %s: %v", arch, err)
	}
	program, err := os.ReadFile(out)
	if err != nil {
		tb.Fatal(err)
	}
	if built.programs == nil {
		built.programs = map[string][]byte{}
	}
	built.programs[arch] = program
}

// Outcome is what the victim says of one attempt.
type Outcome struct {
	Attempt string `json:"attempt"`
	ABI     string `json:"abi"`
	Context string `json:"context"`
	Result  string `json:"result"`
}

// Parse reads a whole report.
func Parse(report string) ([]Outcome, error) {
	in := json.NewDecoder(bytes.NewReader([]byte(report)))
	in.DisallowUnknownFields()
	var all []Outcome
	for {
		var o Outcome
		switch err := in.Decode(&o); err {
		case nil:
			all = append(all, o)
		case io.EOF:
			return all, nil
		default:
			return nil, fmt.Errorf("line %d of the victim's report: %w", len(all)+1, err)
		}
	}
}
