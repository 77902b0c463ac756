// Package spec turns what an engine hands over, and what the host allows, into
// values that sage can act on: a bundle's config.json into a checked OCI spec,
// the host's configuration into profiles, and both into the [Policy] of one
// container. It reads no files and makes no system calls; whoever calls it
// brings the bytes, and whoever gets a policy enforces it.
package spec
