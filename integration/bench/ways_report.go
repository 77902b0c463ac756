package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// printWays prints what was measured, and whether what is promised of it holds.
func printWays(out io.Writer, all []*way) {
	fmt.Fprintf(out, "\n| way to an HTTPS server | request ms (p10-p90, %d) | MiB/s (median of %d) | requests/s, %d at once | its own CPU ms a request | MiB resident idle, after |\n|---|---|---|---|---|---|\n",
		len(all[0].requests), len(all[0].pours), crowdWidth)
	by := map[string]*way{}
	for _, w := range all {
		by[w.name] = w
		fmt.Fprintf(out, "| %s | %s | %.0f (%.0f-%.0f) | %.0f (%.0f-%.0f) | %s | %.1f, %.1f |\n", w.name, spreadOf(w.requests),
			middle(w.pours), slices.Min(w.pours), slices.Max(w.pours), middle(w.crowds), slices.Min(w.crowds), slices.Max(w.crowds),
			ms(w.cpu/time.Duration(max(w.asked, 1))), float64(w.idle)/1024, float64(w.after)/1024)
	}
	fmt.Fprint(out, "\n| promise of the proxy | measured | |\n|---|---|---|\n")
	for _, p := range promises(by["direct"], by["relay"], by["smokescreen"], by["sage"]) {
		verdict := "does not hold"
		if p.holds {
			verdict = "holds"
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", p.what, p.measured, verdict)
	}
}

type promise struct {
	what, measured string
	holds          bool
}

// idleMiB is what the proxy may hold before its first connection.
const idleMiB = 10

func promises(direct, relay, peer, sage *way) []promise {
	half := func(w *way) time.Duration { return spreadOf(w.requests).median }
	adds, peerAdds := half(sage)-half(direct), half(peer)-half(direct)
	poured, crowd := middle(sage.pours)/middle(relay.pours), middle(sage.crowds)/middle(peer.crowds)
	return []promise{
		{"throughput >= 0.9 x the plain relay's", fmt.Sprintf("%.2f", poured), poured >= 0.9},
		{
			"median request <= direct + 0.7 x what smokescreen adds",
			fmt.Sprintf("adds %s ms, smokescreen %s ms: %.2f", ms(adds), ms(peerAdds), float64(adds)/float64(peerAdds)),
			float64(adds) <= 0.7*float64(peerAdds),
		},
		{"requests/s >= 1.2 x smokescreen's", fmt.Sprintf("%.2f", crowd), crowd >= 1.2},
		{
			fmt.Sprintf("<= %d MiB resident idle", idleMiB), fmt.Sprintf("%.1f, smokescreen %.1f", float64(sage.idle)/1024, float64(peer.idle)/1024),
			sage.idle <= idleMiB<<10,
		},
	}
}

func middle(values []float64) float64 {
	return quantile(slices.Sorted(slices.Values(values)), 0.5)
}
