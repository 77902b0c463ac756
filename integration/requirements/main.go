// Command requirements shows which numbered requirements the tests say that
// they prove. It counts what the comments claim; it does not run the tests, and
// a requirement that no test names may still hold.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit status: 1 where a comment names an id that there is
// not, since it is then a claim that nobody can check.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("requirements", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", ".", "top of the checkout")
	document := flags.String("document", os.Getenv("SAGE_REQUIREMENTS"),
		"the catalogue, for titles; if empty, ../shared/reference/requirements.md where there is one")
	if flags.Parse(args) != nil {
		return 2
	}
	report, err := gather(*root, *document)
	if err != nil {
		fmt.Fprintln(stderr, "requirements:", err)
		return 1
	}
	report.print(stdout)
	if len(report.unknown) > 0 {
		return 1
	}
	return 0
}

func gather(root, document string) (*report, error) {
	catalogue, err := load(root, document)
	if err != nil {
		return nil, err
	}
	claims, err := scan(os.DirFS(root))
	if err != nil {
		return nil, err
	}
	return compare(catalogue, claims), nil
}
