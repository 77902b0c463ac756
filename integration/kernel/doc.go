// Package kernel is the ring of tests that run a runtime's binary as root on
// the native kernel, with no engine above it. It is not a conformance suite:
// that a container is what its config says is left to runc's own suite.
package kernel
