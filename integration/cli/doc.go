// Package cli holds transcripts of sage-runtime's command line that need no
// root and no kernel feature: flags, help, errors, log records, printed files.
// It tests the built binary from outside and is not the package internal/cli.
package cli
