// Command victim is what a hostile program would be: it tries one forbidden
// thing after the other and says as JSON lines what came of each. It knows
// nothing of what should come of it; that is expect's table.
//
//	victim CONTEXT [PROGRAM]  tries everything, with PROGRAM in its own place
//	victim try CONTEXT NAME   tries one thing and prints the result
//	victim names              prints what there is to try
//	victim euid               prints as whom it runs
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := victim(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "victim:", err)
		os.Exit(1)
	}
}
