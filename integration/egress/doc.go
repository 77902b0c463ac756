// Package egress has the tests of a container's way out: the built programs,
// with servers and a resolver of the tests' own on this machine.
package egress
