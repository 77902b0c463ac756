//go:build linux

// Containerd-shim-sage-v2 is the containerd shim of sage, for the runtime type
// io.containerd.sage.v2. It is not meant to be started by hand.
package main

import (
	"context"

	"github.com/sage-sandbox/sage/internal/shim"
)

func main() { shim.Run(context.Background()) }
