package egress_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/egress"
)

// counters is a file of them with each number of the list in its place.
func counters(set map[egress.Counter]uint64) []byte {
	file := make([]byte, egress.CountersSize)
	for i, n := range set {
		binary.NativeEndian.PutUint64(file[i*8:], n)
	}
	return file
}

// TestParseCounts: what a proxy in other hands leaves there is refused, or is a
// number.
func TestParseCounts(t *testing.T) {
	full := counters(map[egress.Counter]uint64{egress.CounterAllowed: 1, egress.CounterAuditLost: math.MaxInt64, egress.CounterDeniedHello: 7})
	got, err := egress.ParseCounts(full)
	if err != nil || got[egress.CounterAllowed] != 1 || got[egress.CounterAuditLost] != math.MaxInt64 || got[egress.CounterDeniedHello] != 7 || got[egress.CounterDenied] != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	newer := counters(map[egress.Counter]uint64{egress.NumCounters: math.MaxUint64, egress.CounterHeld: 3})
	if got, err := egress.ParseCounts(newer); err != nil || got[egress.CounterHeld] != 3 {
		t.Errorf("of a newer proxy: got %v, %v", got, err)
	}
	for name, file := range map[string][]byte{
		"empty": nil, "cut short": full[:egress.CountersSize-1], "longer": append(full, 0),
		"below zero": counters(map[egress.Counter]uint64{egress.CounterActive: math.MaxUint64}),
		"too many":   counters(map[egress.Counter]uint64{egress.NumCounters - 1: 1 << 63}),
	} {
		if got, err := egress.ParseCounts(file); err == nil || got != (egress.Counts{}) || !strings.HasPrefix(err.Error(), "counters: saw ") {
			t.Errorf("%s: got %v, %v, want an error", name, got, err)
		}
	}
}

// TestOtherDenials: they and those with a code are all of them, and a file that
// contradicts itself makes no huge number.
func TestOtherDenials(t *testing.T) {
	for _, tt := range []struct{ all, host, hello, want uint64 }{{0, 0, 0, 0}, {5, 2, 3, 0}, {5, 2, 1, 2}, {1, 1 << 62, 1 << 62, 0}, {9, 0, 0, 9}} {
		c := egress.Counts{egress.CounterDenied: tt.all, egress.CounterDeniedHost: tt.host, egress.CounterDeniedHello: tt.hello}
		if got := c.OtherDenials(); got != tt.want {
			t.Errorf("%+v: got %d", tt, got)
		}
	}
}
