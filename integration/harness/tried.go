package harness

import (
	"fmt"
	"strings"
	"testing"
)

// Tried is a command in a container, and a part of what it is to print.
type Tried [2]string

// What curl and Busybox print of each outcome.
const (
	Answered    = "hello" // by a [World]
	DeniedHost  = "X-Sage-Deny: sandbox.egress_host_denied"
	NoName      = "Could not resolve host"
	NoNetwork   = "Network is unreachable"
	NoConnect   = "curl: (7)" // to an address
	NoSuchEntry = "No such file or directory"
)

// TryEach runs all commands as one script, by whatever way exec has to run one
// in a container: that takes longer than most commands do. It ends well.
func TryEach(tb testing.TB, exec func(script string) (output string), all []Tried) {
	tb.Helper()
	var script strings.Builder
	for i, one := range all {
		fmt.Fprintf(&script, "echo; echo '<%d>'; { %s; } 2>&1\n", i, one[0])
	}
	fmt.Fprintf(&script, "echo; echo '<%d>'", len(all))
	out, failed := "\n"+exec(script.String()), false // which may have been trimmed
	for i, one := range all {
		_, rest, found := strings.Cut(out, fmt.Sprintf("\n<%d>", i))
		got, _, ended := strings.Cut(rest, fmt.Sprintf("\n<%d>", i+1))
		if !found || !ended || !strings.Contains(got, one[1]) {
			tb.Errorf("%s: got %q, want %q", one[0], got, one[1])
			failed = true
		}
	}
	if failed {
		tb.Logf("output:\n%s", out)
	}
}
