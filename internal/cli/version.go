package cli

import (
	"fmt"
	goruntime "runtime"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/runtime"
)

// version and commit are set by the linker, see the Makefile.
var (
	version = "0.0.0-unknown"
	commit  string
)

// printVersion keeps runc's lines, which dockerd parses for its info.
func printVersion(ctx *cli.Context) {
	w := ctx.App.Writer
	fmt.Fprintln(w, "sage-runtime version", ctx.App.Version)
	if commit != "" {
		fmt.Fprintln(w, "commit:", commit)
	}
	fmt.Fprintln(w, "spec:", specs.Version)
	fmt.Fprintln(w, "go:", goruntime.Version())
	if v := runtime.SeccompVersion(); v != "" {
		fmt.Fprintln(w, "libseccomp:", v)
	}
}
