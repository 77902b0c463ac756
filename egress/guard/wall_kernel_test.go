//go:build kernel

package guard

import (
	"os"
	"testing"
	"time"
)

// everything lets every user make ping sockets in the namespace, and TCP send
// data with the first packet to whomever.
func everything() error {
	return first(
		os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0),
		os.WriteFile("/proc/sys/net/ipv4/tcp_fastopen", []byte("5"), 0),
	)
}

// Proves: S-061, S-079, E-062, attacks 6: whatever a program does, with whatever
// privilege over its sockets, nothing of it arrives at the other end of the wire,
// and it is told at once. The same program without a guard shows that each
// attempt would have arrived.
func TestNothingArrives(t *testing.T) {
	for name, o := range map[string]Options{
		"nothing":     {},
		"loopback":    {Loopback: true},
		"bridge":      {BridgePort: 3128},
		"transparent": {BridgePort: 3128, Loopback: true, Transparent: true},
		"shared":      {BridgePort: 3128, Shared: true},
		"published":   {Published: true},
		"all of it":   {BridgePort: 3128, Loopback: true, Transparent: true, Published: true},
	} {
		t.Run(name, func(t *testing.T) { nothingArrives(t, o) })
	}
}

func nothingArrives(t *testing.T, o Options) {
	w := newWired(t)
	w.container.do(t, everything)
	g := newGroup(t)
	g.guard(t, o)
	c := w.listenAt(t)
	var results []result
	g.run(t, w.container, &results, "role-attempts")
	c.settle(t, w)
	all := attempts()
	for i, r := range results {
		want := all[i].want
		if r.Errno != want {
			t.Errorf("%s: saw %v, want %v", r.Name, r.Errno, want)
		}
		if r.Took > 50*time.Millisecond {
			t.Errorf("%s: told after %v, want less than 50 ms", r.Name, r.Took)
		}
	}
	for i := range all {
		if n := c.seen(markOf(i)); n > 0 {
			t.Errorf("%s: %d packets arrived", all[i].name, n)
		}
	}
	if n := c.seen(); n > 0 {
		t.Errorf("%d packets arrived, want none: %x", n, c.packets[0])
	}
}

// TestEverythingArrivesWithout is the other half of TestNothingArrives.
func TestEverythingArrivesWithout(t *testing.T) {
	w := newWired(t)
	w.container.do(t, everything)
	c := w.listenAt(t)
	var results []result
	newGroup(t).run(t, w.container, &results, "role-attempts")
	c.settle(t, w)
	for i, a := range attempts() {
		if c.seen(markOf(i)[:2]) == 0 {
			t.Errorf("%s: nothing arrived without a guard (%v), so the attempt shows nothing", a.name, results[i].Errno)
		}
	}
}
