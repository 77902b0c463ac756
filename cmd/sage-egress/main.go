// Command sage-egress is the way out of a container: its bridge, which accepts
// connections, and its proxy, which decides on them. sage-runtime starts both;
// what they are to do comes on a descriptor, not in the arguments.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/sage-sandbox/sage/egress/bridge"
	"github.com/sage-sandbox/sage/egress/proxy"
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	roles := map[string]func() error{
		"bridge": bridge.Main,
		"proxy":  func() error { return proxy.Main(context.Background()) },
	}
	if len(args) == 1 && args[0] == "--version" {
		fmt.Println("sage-egress version", version)
		return 0
	}
	if len(args) != 1 || roles[args[0]] == nil {
		fmt.Fprintln(os.Stderr, "usage: sage-egress bridge | proxy | --version (started by sage-runtime, which says the rest on descriptor 3)")
		return 2
	}
	if err := roles[args[0]](); err != nil {
		fmt.Fprintf(os.Stderr, "sage-egress %s: %v\n", args[0], err)
		return 1
	}
	return 0
}
