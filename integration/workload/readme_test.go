package workload

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of README.md again")

const begin, end = "<!-- the table, made by go test -update -->\n", "<!-- end -->\n"

// TestReadme: the table that people read is the list that the test holds.
func TestReadme(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(data), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("README.md: want the lines %q and %q", begin, end)
	}
	want := markdown(readList(t))
	if *update {
		if err := os.WriteFile("README.md", []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != want {
		t.Error("README.md does not show expected.tsv: run go test -update")
	}
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
