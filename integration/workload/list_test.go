package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// profiles are the columns of the list, in its order.
var profiles = []string{"compat", "sage", "agent", "service"}

// works is what a cell says for a program that ends with exit status 0. Any
// other text is what the program prints when it breaks, so that it cannot break
// for another reason than the one expected.
const works = "works"

// program is one line of expected.tsv.
type program struct {
	name string // the script below testdata, without its ending
	user string // who runs it, by name in the image
	want map[string]string
	why  string
}

func readList(tb testing.TB) []program {
	tb.Helper()
	data, err := os.ReadFile("expected.tsv")
	if err != nil {
		tb.Fatal(err)
	}
	var list []program
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		p, err := parseLine(strings.TrimRight(line, "\n"))
		if err != nil {
			tb.Fatalf("expected.tsv: %v: %q", err, line)
		}
		list = append(list, p)
	}
	return list
}

func parseLine(line string) (program, error) {
	f := strings.Split(line, "\t")
	if len(f) != len(profiles)+3 || slices.Contains(f[:len(f)-1], "") {
		return program{}, fmt.Errorf("want %d columns, none but the last empty", len(profiles)+3)
	}
	p := program{name: f[0], user: f[1], want: map[string]string{}, why: f[len(f)-1]}
	broken := false
	for i, profile := range profiles {
		p.want[profile] = f[2+i]
		broken = broken || f[2+i] != works
	}
	if broken != (p.why != "") {
		return program{}, fmt.Errorf("want a reason where the program breaks, and none where it works")
	}
	return p, nil
}

// interpreters run the scripts, by their ending.
var interpreters = map[string][]string{
	".sh": {"bash", "-eu"},
	".py": {"python3", "-P"}, // Without the script's folder, whose files have names of modules.
	".js": {"node"},
}

// sourced are the scripts that are parts of others.
var sourced = []string{"server", "apt/package", "postgres/use", "ssh/login"}

// scripts returns the path of every program's script, by the program's name.
func scripts(tb testing.TB) map[string]string {
	tb.Helper()
	found := map[string]string{}
	err := filepath.WalkDir("testdata", func(path string, _ os.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, "testdata/")
		ending := filepath.Ext(rel)
		name := strings.TrimSuffix(rel, ending)
		if interpreters[ending] != nil && !slices.Contains(sourced, name) {
			found[name] = rel
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return found
}

// TestList: each line has a script and each script a line.
func TestList(t *testing.T) {
	var listed, written []string
	for _, p := range readList(t) {
		listed = append(listed, p.name)
	}
	for name := range scripts(t) {
		written = append(written, name)
	}
	slices.Sort(listed)
	slices.Sort(written)
	if diff := cmp.Diff(listed, written); diff != "" {
		t.Errorf("programs in expected.tsv (-) and in testdata (+):\n%s", diff)
	}
}
