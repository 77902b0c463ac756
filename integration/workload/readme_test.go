package workload

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

var update = flag.Bool("update", false, "write the table of README.md again")

// TestReadme: the table that people read is the list that the test holds.
func TestReadme(t *testing.T) {
	harness.ReadmeTable(t, "expected.tsv", markdown(readList(t)), *update)
}

func markdown(list []program) string {
	var b strings.Builder
	b.WriteString("| program | " + strings.Join(profiles, " | ") + " | why |\n")
	b.WriteString("| --- |" + strings.Repeat(" --- |", len(profiles)) + " --- |\n")
	for _, p := range list {
		b.WriteString("| " + p.name)
		for _, profile := range profiles {
			b.WriteString(" | " + cell(p.want[profile]))
		}
		fmt.Fprintf(&b, " | %s |\n", p.why)
	}
	return b.String()
}

// cell leaves what the program prints to expected.tsv.
func cell(want string) string {
	if want == works {
		return works
	}
	return "**breaks**"
}
