// Package tig is the one name of nerdctl's test framework that leaks into the
// nerdctl program. It is not that framework: the module proxy does not hold
// it, and nothing that nerdctl's main reaches calls it.
package tig

// T is the part of testing.T that a test helper compiled into nerdctl names.
type T interface {
	Log(args ...any)
	FailNow()
}
