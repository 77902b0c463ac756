// Package shim is the process that containerd starts for each container, or
// each pod, that uses the runtime type io.containerd.sage.v2. It is containerd's
// own runc shim, taken as a library, with what differs for sage: the program
// that it executes, where that keeps its state, and the options it understands.
//
// It is not a runtime: it links none, executes sage-runtime for every step, and
// so stays without cgo and survives a crash of what it executes.
package shim

// Name is the runtime type. containerd makes the name of the binary from its
// last two parts: containerd-shim-sage-v2.
const Name = "io.containerd.sage.v2"

// Root is where sage-runtime keeps its state under containerd, one folder per
// containerd namespace. It is not that of the runc shim: two runtimes of one
// containerd must not read each other's state files.
const Root = "/run/containerd/sage"
