package cli_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the golden files inside the transcripts")

func TestTranscripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			// Not the machine's: a user's runtime folder moves the default root.
			env.Setenv("XDG_RUNTIME_DIR", "")
			return nil
		},
		// Root's default state folder does not depend on the environment.
		Condition: func(name string) (bool, error) {
			if name != "root" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return os.Geteuid() == 0, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fails": fails,
			"json":  field,
			"lines": lines,
		},
	})
}

// fails STATUS PHRASE ARGS... runs the program, which has to exit with STATUS,
// say PHRASE on standard error, and print none of the words of a Go panic.
func fails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fails status phrase args...")
	}
	err := ts.Exec(program, args[2:]...)
	stderr := ts.ReadFile("stderr")
	if got := status(err); got != args[0] {
		ts.Fatalf("got exit status %s, want %s", got, args[0])
	}
	if !strings.Contains(strings.ReplaceAll(stderr, `\"`, `"`), args[1]) {
		ts.Fatalf("got %q on standard error, want %q in it", stderr, args[1])
	}
	if n := strings.Count(strings.TrimSpace(stderr), "\n") + 1; n != 1 {
		ts.Fatalf("got %d lines on standard error, want 1", n)
	}
	for _, word := range []string{"panic:", "goroutine ", "runtime error"} {
		if strings.Contains(stderr+ts.ReadFile("stdout"), word) {
			ts.Fatalf("got the words of a panic: %q", stderr)
		}
	}
}

// status reads the exit status from exec's error, "0" for nil.
func status(err error) string {
	if err == nil {
		return "0"
	}
	_, code, _ := strings.Cut(err.Error(), "exit status ")
	return code
}

// json FILE PATH REGEXP looks at one field of a JSON file whose path is given
// with dots, numbers being indices.
func field(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: json file path regexp")
	}
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	dec.UseNumber()
	var doc any
	ts.Check(dec.Decode(&doc))
	if dec.More() {
		ts.Fatalf("%s holds more than one JSON document", args[0])
	}
	got, err := follow(doc, strings.Split(args[1], "."))
	ts.Check(err)
	if regexp.MustCompile("^(?:"+args[2]+")$").MatchString(got) == neg {
		ts.Fatalf("%s is %q, want it to match %q: %v", args[1], got, args[2], !neg)
	}
}

// follow returns a string as it is and anything else as compact JSON.
func follow(doc any, path []string) (string, error) {
	for _, key := range path {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[key]
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(v) {
				return "", fmt.Errorf("no element %q among %d", key, len(v))
			}
			doc = v[i]
		default:
			return "", fmt.Errorf("%q asked of a %T", key, doc)
		}
	}
	if s, ok := doc.(string); ok {
		return s, nil
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(doc)
	return strings.TrimSpace(out.String()), err
}

// lines FILE N counts the lines of a file.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: lines file n")
	}
	if got := fmt.Sprint(strings.Count(ts.ReadFile(args[0]), "\n")); (got == args[1]) == neg {
		ts.Fatalf("%s has %s lines, want %s: %v", args[0], got, args[1], !neg)
	}
}
