// Command sage-runtime is an OCI runtime that takes runc's place.
package main

import (
	"os"

	"github.com/opencontainers/runc/libcontainer"
	_ "github.com/opencontainers/runc/libcontainer/nsenter" // enters namespaces before the Go runtime has threads

	"github.com/sage-sandbox/sage/internal/cli"
	_ "github.com/sage-sandbox/sage/internal/sysmon" // for init, too, which does not get as far as cli
)

// libcontainer starts this program again, as "init", inside the container.
func init() {
	if len(os.Args) > 1 && os.Args[1] == "init" {
		libcontainer.Init()
	}
}

func main() {
	env := cli.Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, LookupEnv: os.LookupEnv}
	os.Exit(cli.Run(env, os.Args))
}
