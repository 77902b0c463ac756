package errcode_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// other stands for a second code: the rule that the first one wins needs two,
// and the catalogue holds only those that something reports today.
const other errcode.Code = "sandbox.other_failure"

var errCause = errors.New("ociVersion is 7, want 1.x")

func TestWrap(t *testing.T) {
	coded := errcode.Wrap(errcode.BundleInvalid, "load bundle", errCause)
	tests := []struct {
		name string
		err  error
		text string
		code errcode.Code
	}{
		{
			"first code ends the message", coded,
			"load bundle: ociVersion is 7, want 1.x [sandbox.bundle_invalid]", errcode.BundleInvalid,
		},
		{
			"second code adds words only", errcode.Wrap(other, "create", coded),
			"create: load bundle: ociVersion is 7, want 1.x [sandbox.bundle_invalid]", errcode.BundleInvalid,
		},
		{
			"code is found through fmt wrapping", errcode.Wrap(other, "create", fmt.Errorf("id c1: %w", coded)),
			"create: id c1: load bundle: ociVersion is 7, want 1.x [sandbox.bundle_invalid]", errcode.BundleInvalid,
		},
		{
			"code is found in a join", errors.Join(errCause, coded),
			"ociVersion is 7, want 1.x\nload bundle: ociVersion is 7, want 1.x [sandbox.bundle_invalid]", errcode.BundleInvalid,
		},
		{"no code", errCause, "ociVersion is 7, want 1.x", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.err.Error(); got != tt.text {
				t.Errorf("message: got %q, want %q", got, tt.text)
			}
			if got := errcode.Of(tt.err); got != tt.code {
				t.Errorf("Of: got %q, want %q", got, tt.code)
			}
			if !errors.Is(tt.err, errCause) {
				t.Error("the cause is lost from the chain")
			}
		})
	}
}

func TestWrapNil(t *testing.T) {
	if got := errcode.Wrap(errcode.BundleInvalid, "load bundle", nil); got != nil {
		t.Errorf("Wrap(nil): got %v, want nil", got)
	}
	if got := errcode.Of(nil); got != "" {
		t.Errorf("Of(nil): got %q, want none", got)
	}
}

// TestWrapKeepsType pins what callers rely on to tell "missing" from "bad".
func TestWrapKeepsType(t *testing.T) {
	missing := &fs.PathError{Op: "open", Path: "config.json", Err: fs.ErrNotExist}
	err := errcode.Wrap(errcode.BundleInvalid, "load bundle", missing)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want a chain that holds fs.ErrNotExist", err)
	}
	if got, ok := errors.AsType[*fs.PathError](err); !ok || got != missing {
		t.Errorf("got %v, want the *fs.PathError itself", got)
	}
}
