//go:build kernel

package policy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
	"github.com/sage-sandbox/sage/integration/victim/expect"
)

// profile is a column of the victim's table with the host file that gives it.
type profile struct {
	name expect.Profile
	host string
}

var profiles = []profile{
	{expect.Sage, harness.SoftSage},
	{expect.Agent, harness.SoftAgent},
	{expect.Service, harness.SoftService},
}

// check is for what the test needs and does not test.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	return string(data)
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, []byte(text), 0o644))
}

// ran wants a container or command that ended well.
func ran(t *testing.T, res harness.Result) {
	t.Helper()
	if res.Code != 0 {
		t.Errorf("got %s, want exit status 0", res)
	}
}

// refused wants a refusal, with a code that begins like this and all of the
// phrases, and nothing kept of the container.
func refused(t *testing.T, r *harness.Runtime, res harness.Result, code string, phrases ...string) {
	t.Helper()
	if res.Code == 0 || code != "" && !strings.Contains(res.Stderr, "["+code) {
		t.Errorf("got %s, want a refusal with the code %s", res, code)
	}
	for _, word := range phrases {
		if !strings.Contains(said(res), word) {
			t.Errorf("got %q, want it to hold %q", res.Stderr, word)
		}
	}
	for _, word := range []string{"panic:", "goroutine "} {
		if strings.Contains(res.Stdout+res.Stderr, word) {
			t.Errorf("got %s, want no %q", res, word)
		}
	}
	entries, err := os.ReadDir(r.Root)
	check(t, err)
	if len(entries) > 0 {
		t.Errorf("left in the state root: %s", entries[0].Name())
	}
}

// said is the standard error as a person reads it.
func said(res harness.Result) string { return strings.ReplaceAll(res.Stderr, `\"`, `"`) }

// stateOf returns what "state" prints.
func stateOf(t *testing.T, r *harness.Runtime, id string) specs.State {
	t.Helper()
	var state specs.State
	check(t, json.Unmarshal([]byte(r.Must(t, "state", id).Stdout), &state))
	return state
}
