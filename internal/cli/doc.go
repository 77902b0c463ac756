// Package cli is the command line of sage-runtime, flag for flag that of runc.
// It turns arguments into calls of the runtime package and is the only place
// that prints to people; it holds no logic of containers.
package cli
