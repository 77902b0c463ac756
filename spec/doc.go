// Package spec turns what an engine hands over into values that sage can act
// on: a bundle's config.json into a checked OCI spec. It reads no files and
// makes no system calls; whoever calls it brings the bytes.
package spec
