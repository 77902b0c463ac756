// Package proxy is the process by which the network is reached from one
// container, and the only one. It gets connections from the bridge, reads where
// each wants to go, decides that by package egress, resolves, dials the address
// that was checked, and looks into the first bytes of what it passes on, to see
// that they name the same host. What it cannot read it refuses.
//
// It runs without privileges, outside the container, and opens no file: all it
// has are descriptors that sage-runtime gave it.
package proxy
