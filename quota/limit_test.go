package quota_test

import (
	"testing"

	"github.com/sage-sandbox/sage/quota"
)

// Proves: S-141, that a limit is never more than what was asked for, in bytes
// and in the inodes that those bytes stand for.
func TestNewLimit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		bytes, block uint64
		want         quota.Limit
	}{
		{"whole blocks", 4096 << 20, 4096, quota.Limit{Bytes: 4096 << 20, Inodes: 1 << 20}},
		{"rounded down", 8191, 4096, quota.Limit{Bytes: 4096, Inodes: 1}},
		{"large blocks", 200_000, 65536, quota.Limit{Bytes: 196608, Inodes: 48}},
		{"less than a block", 4095, 4096, quota.Limit{}},
		{"unknown block", 4096, 0, quota.Limit{Bytes: 4096, Inodes: 1}},
		{"the most", 1<<64 - 1, 4096, quota.Limit{Bytes: 1<<64 - 4096, Inodes: 1<<52 - 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := quota.NewLimit(test.bytes, test.block); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// Proves: S-141, that what the kernel takes for no limit is never set as one.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, l := range []quota.Limit{{}, {Bytes: 4096}, {Inodes: 1}, {Bytes: 4095, Inodes: 1}} {
		if l.Check() == nil {
			t.Errorf("%+v: taken", l)
		}
	}
	if err := quota.NewLimit(4096, 4096).Check(); err != nil {
		t.Error(err)
	}
}

func TestLess(t *testing.T) {
	t.Parallel()
	l := quota.Limit{Bytes: 8192, Inodes: 2}
	if got, want := l.Less(4096, 1), (quota.Limit{Bytes: 4096, Inodes: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := l.Less(9000, 3); got != (quota.Limit{}) {
		t.Errorf("got %+v, want nothing left", got)
	}
}

// Proves: S-024, S-141.
func TestUsage(t *testing.T) {
	t.Parallel()
	want := quota.Limit{Bytes: 1 << 20, Inodes: 256}
	hard := func(bytes, inodes uint64) quota.Usage {
		return quota.Usage{Hard: quota.Limit{Bytes: bytes, Inodes: inodes}}
	}
	full := hard(1<<20, 256)
	full.Bytes, full.Inodes = 1<<20, 256
	over, many := full, full
	over.Bytes, many.Inodes = 1<<20+512, 257
	tests := []struct {
		name                string
		u                   quota.Usage
		equal, fits, within bool
	}{
		{"as set", hard(1<<20, 256), true, true, true},
		{"full", full, true, true, true},
		{"a block less", hard(1<<20-512, 256), false, true, true},
		{"a block more", hard(1<<20+512, 256), false, true, false},
		{"an inode less", hard(1<<20, 255), false, true, true},
		{"an inode more", hard(1<<20, 257), false, true, false},
		{"no limit", hard(0, 256), false, true, false},
		{"no inode limit", hard(1<<20, 0), false, true, false},
		{"used more bytes", over, true, false, false},
		{"used more inodes", many, true, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if err := test.u.Compare(want); (err == nil) != test.equal {
				t.Errorf("Compare: %v", err)
			}
			if err := test.u.Fits(want); (err == nil) != test.fits {
				t.Errorf("Fits: %v", err)
			}
			if err := test.u.Within(want); (err == nil) != test.within {
				t.Errorf("Within: %v", err)
			}
		})
	}
}
