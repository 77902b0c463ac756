// Command vm boots a Debian kernel in QEMU, with the host's files under it, and
// runs test binaries or a script there: what needs another kernel than the
// machine's, or quotas and cgroups that the machine has not got. The same
// program is the guest's first process. It is no way to keep a machine: the
// guest ends with its jobs and its writes vanish.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/sage-sandbox/sage/integration/vm/guest"
)

func main() {
	switch {
	case os.Getpid() == 1:
		guest.Boot(context.Background())
	case len(os.Args) == 2 && os.Args[1] == guest.Stage:
		guest.Jobs(context.Background())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	code, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "vm:", err)
		code = max(code, 1)
	}
	stop()
	os.Exit(code)
}
