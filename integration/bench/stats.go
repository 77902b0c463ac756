package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// spread is where the middle of many samples lies, and how wide they lie.
type spread struct {
	p10, median, p90 time.Duration
}

func spreadOf(samples []time.Duration) spread {
	sorted := slices.Sorted(slices.Values(samples))
	return spread{quantile(sorted, 0.1), quantile(sorted, 0.5), quantile(sorted, 0.9)}
}

// quantile reads a sorted list at q of its length, between two values if need be.
func quantile[T ~float64 | ~int64](sorted []T, q float64) T {
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + T((at-float64(low))*float64(sorted[high]-sorted[low]))
}

// interval is a value and the bounds that hold it in 95 of 100 cases.
type interval struct {
	low, value, high float64
}

// pairedRatio is the median over the pairs of sage's time to runc's. What slows
// the machine for a moment slows both halves of a pair and cancels out.
func pairedRatio(pairs []pair) interval {
	ratios := make([]float64, len(pairs))
	for i, p := range pairs {
		ratios[i] = float64(p.sage.wall) / float64(p.runc.wall)
	}
	low, high := bootstrap(ratios, 2000)
	slices.Sort(ratios)
	return interval{low, quantile(ratios, 0.5), high}
}

// bootstrap draws as many values again from the values, rounds times, and sees
// how far the median moves. The draws are the same each time, so that one set
// of samples has one interval.
func bootstrap(values []float64, rounds int) (low, high float64) {
	draw := rand.New(rand.NewPCG(1, 2))
	medians, again := make([]float64, rounds), make([]float64, len(values))
	for i := range medians {
		for j := range again {
			again[j] = values[draw.IntN(len(values))]
		}
		slices.Sort(again)
		medians[i] = quantile(again, 0.5)
	}
	slices.Sort(medians)
	return quantile(medians, 0.025), quantile(medians, 0.975)
}

// result is one measure, summed up.
type result struct {
	measure
	pairs            []pair
	runc, sage       spread
	runcCPU, sageCPU spread
	paired           interval
}

func summarize(m measure, pairs []pair) result {
	pick := func(of func(pair) time.Duration) spread {
		samples := make([]time.Duration, len(pairs))
		for i, p := range pairs {
			samples[i] = of(p)
		}
		return spreadOf(samples)
	}
	return result{
		measure: m, pairs: pairs, paired: pairedRatio(pairs),
		runc:    pick(func(p pair) time.Duration { return p.runc.wall }),
		sage:    pick(func(p pair) time.Duration { return p.sage.wall }),
		runcCPU: pick(func(p pair) time.Duration { return p.runc.cpu }),
		sageCPU: pick(func(p pair) time.Duration { return p.sage.cpu }),
	}
}

// ratio is what the promises are about.
func (r result) ratio() float64 { return float64(r.sage.median) / float64(r.runc.median) }

func (r result) cpuRatio() float64 {
	return float64(r.sageCPU.median) / float64(max(r.runcCPU.median, 1))
}

// verdict says whether the promise held, and whether another run of the same
// binaries might well say the opposite.
func (r result) verdict() string {
	verdict := "holds"
	if r.ratio() > r.limit {
		verdict = "does not hold"
	}
	if r.paired.low <= r.limit && r.limit < r.paired.high {
		verdict += ", within noise"
	}
	return verdict
}
