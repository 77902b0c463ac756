package main

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantile(t *testing.T) {
	tests := []struct {
		name   string
		sorted []float64
		q      float64
		want   float64
	}{
		{"one value", []float64{7}, 0.9, 7},
		{"median of odd", []float64{1, 2, 9}, 0.5, 2},
		{"median of even lies between", []float64{1, 2, 4, 9}, 0.5, 3},
		{"lowest", []float64{1, 2, 4, 9}, 0, 1},
		{"highest", []float64{1, 2, 4, 9}, 1, 9},
		{"tenth", []float64{0, 10, 20, 30, 40}, 0.1, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := quantile(tt.sorted, tt.q); math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestPairedRatioIgnoresDrift is why there are pairs: the machine gets slower
// by the minute, and the ratio of each pair does not see it.
func TestPairedRatioIgnoresDrift(t *testing.T) {
	var pairs []pair
	for i := range 200 {
		base := time.Duration(10+i) * time.Millisecond
		pairs = append(pairs, pair{runc: sample{wall: base}, sage: sample{wall: base * 11 / 10}})
	}
	got := pairedRatio(pairs)
	for _, v := range []float64{got.low, got.value, got.high} {
		if math.Abs(v-1.1) > 1e-6 {
			t.Errorf("got %v, want 1.1 in all three places", got)
		}
	}
}

func TestBootstrap(t *testing.T) {
	noisy := make([]float64, 201)
	for i := range noisy {
		noisy[i] = 1 + float64(i%21-10)/100 // 0.9 to 1.1, the median 1
	}
	low, high := bootstrap(noisy, 2000)
	if low > 1 || high < 1 || low == high || high-low > 0.05 {
		t.Errorf("got %v to %v, want a narrow interval around 1", low, high)
	}
	again, _ := bootstrap(noisy, 2000)
	if again != low {
		t.Errorf("got %v and then %v from the same values", low, again)
	}
}

func TestSummarize(t *testing.T) {
	var pairs []pair
	for i := range 11 {
		d := time.Duration(i)
		pairs = append(pairs, pair{runc: sample{100 + d, 50 + d}, sage: sample{110 + d, 60 + d}})
	}
	got := summarize(measure{}, pairs)
	want := []spread{{101, 105, 109}, {111, 115, 119}, {51, 55, 59}, {61, 65, 69}}
	have := []spread{got.runc, got.sage, got.runcCPU, got.sageCPU}
	if diff := cmp.Diff(want, have, cmp.AllowUnexported(spread{})); diff != "" {
		t.Errorf("runc, sage, and the CPU of each (-want +got):\n%s", diff)
	}
}

func TestVerdict(t *testing.T) {
	tests := []struct {
		name       string
		runc, sage time.Duration
		paired     interval
		want       string
	}{
		{"clearly below", 100, 101, interval{1.00, 1.01, 1.02}, "holds"},
		{"exactly at it", 100, 103, interval{1.00, 1.01, 1.02}, "holds"},
		{"below, but not surely", 100, 101, interval{1.00, 1.01, 1.04}, "holds, within noise"},
		{"above, but not surely", 100, 104, interval{1.02, 1.04, 1.06}, "does not hold, within noise"},
		{"clearly above", 100, 120, interval{1.15, 1.20, 1.25}, "does not hold"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := result{
				measure: measure{limit: 1.03},
				runc:    spread{median: tt.runc}, sage: spread{median: tt.sage}, paired: tt.paired,
			}
			if got := r.verdict(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
