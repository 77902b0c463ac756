//go:build !amd64 && !386

package main

// ofX86: this machine is none.
func ofX86() []attempt { return nil }

// otherTables: it has one table of calls.
func otherTables() []attempt { return nil }
