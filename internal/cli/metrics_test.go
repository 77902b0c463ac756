package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sage-sandbox/sage/internal/runtime"
)

// TestExposition: the text of Prometheus, to the byte. A label's value is what a
// bundle says and must not be able to add a line, a label or another's number.
func TestExposition(t *testing.T) {
	hostile := "/a\"} 1\nsage_pids{id=\"victim\\\xff\t\u2028"
	got := string(exposition([]runtime.Metric{
		{Name: "sage_x_total", Help: "With \\ and\nline.", Samples: []runtime.Sample{
			{Labels: []runtime.Label{{Name: "id", Value: "c1"}, {Name: "place", Value: hostile}}, Value: 0.000001},
			{Labels: []runtime.Label{{Name: "id", Value: ""}}, Value: 1 << 62},
		}},
		{Name: "sage_y", Help: "Y.", Gauge: true, Samples: []runtime.Sample{{Labels: []runtime.Label{{Name: "id", Value: "ä"}}, Value: 12.5}}},
	}))
	const want = `# HELP sage_x_total With \\ and\nline.
# TYPE sage_x_total counter
sage_x_total{id="c1",place="/a\"} 1\nsage_pids{id=\"victim\\` + "\uFFFD\t\u2028" + `"} 0.000001
sage_x_total{id=""} 4611686018427388000
# HELP sage_y Y.
# TYPE sage_y gauge
sage_y{id="ä"} 12.5
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOneLine: what is said of a container is one line, whatever its name.
func TestOneLine(t *testing.T) {
	if got, want := oneLine("a\nb\r\x1b[31mc d"), "a\uFFFDb\uFFFD\uFFFD[31mc d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
