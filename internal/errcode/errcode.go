// Package errcode names the failures that sage reports for reasons of its own.
//
// A code is a promise: scripts and dashboards match on it, so codes are only
// ever added. It is not the place for failures that runc has too: those keep
// runc's phrases, which engines match as text, and carry no code.
package errcode

import (
	"errors"
	"fmt"
)

// Code is the stable name of one kind of failure.
type Code string

const (
	// BundleInvalid occurs when config.json is missing, unreadable, empty, too
	// large, of the wrong type in some field, or of an unknown OCI version.
	//
	// Fix: correct the field that the message names; "sage-runtime spec" writes
	// a config.json that is valid.
	BundleInvalid Code = "sandbox.bundle_invalid"
)

// Error is a failure with a code. A chain of errors holds one at most, and it
// is the innermost: see [Wrap].
type Error struct {
	Code Code
	Op   string // what sage was doing, as a verb phrase: "load bundle"
	Err  error
}

// Error ends with the code: containerd shows only the message of a log record,
// so the code must be in it, and at the end it is in nobody's way.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v [%s]", e.Op, e.Err, e.Code) }

// Unwrap gives the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// Wrap gives err a code and says what was being done; nil stays nil. An error
// that has a code keeps it, because whoever saw the failure first knows best
// what it means; such an error only gains op in front.
func Wrap(code Code, op string, err error) error {
	if err == nil {
		return nil
	}
	if Of(err) != "" {
		return fmt.Errorf("%s: %w", op, err)
	}
	return &Error{Code: code, Op: op, Err: err}
}

// Of returns the code that err carries, or "" if it has none.
func Of(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}
