// Command defaultseccomp puts Docker's default seccomp profile into a bundle's
// configuration, as dockerd of the pinned release would: config.json on standard
// input, the changed one on standard output. It applies no filter itself.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/moby/profiles/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "defaultseccomp:", err)
		os.Exit(1)
	}
}

// run works on the whole specification: the profile allows more calls to a
// container with more capabilities.
func run(in io.Reader, out io.Writer) error {
	var config specs.Spec
	if err := json.NewDecoder(in).Decode(&config); err != nil {
		return err
	}
	profile, err := seccomp.GetDefaultProfile(&config)
	if err != nil {
		return err
	}
	if config.Linux == nil {
		config.Linux = &specs.Linux{}
	}
	config.Linux.Seccomp = profile
	return json.NewEncoder(out).Encode(config)
}
