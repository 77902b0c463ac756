package harness

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	for _, c := range []struct {
		name, stat string
		want       Process
		ok         bool
	}{
		{"plain", "12 (sleep) S 7 12 12 0", Process{PID: 12, Parent: 7, State: 'S', Name: "sleep"}, true},
		{"brackets and spaces", "12 (a) R 1 (b) Z 7 12", Process{PID: 12, Parent: 7, State: 'Z', Name: "a) R 1 (b"}, true},
		{"cut off", "12 (sleep) S", Process{}, false},
		{"no name", "12 S 7", Process{}, false},
		{"empty", "", Process{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := parseStat(c.stat)
			if diff := cmp.Diff(c.want, got); diff != "" || ok != c.ok {
				t.Errorf("ok %v, want %v (-want +got):\n%s", ok, c.ok, diff)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	a := Host{Cgroups: []string{"/a", "/b"}, FDs: []string{"3 x"}}
	b := Host{Cgroups: []string{"/b", "/c"}, FDs: []string{"3 x"}, State: []string{"id"}}
	want := []string{"+ cgroup /c", "- cgroup /a", "+ state id"}
	if diff := cmp.Diff(want, Diff(a, b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
