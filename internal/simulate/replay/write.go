package replay

import (
	"fmt"
	"io"
	"text/tabwriter"

	"ollamoon/internal/results"
)

// Write writes what a person wants to know of a replay.
func Write(w io.Writer, r *results.Replay) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%s: %d requests, %d tokens, %d pages of %d tokens, %d distinct; %d workers\n",
		r.Trace.Name, r.Trace.Requests, r.Trace.InputTokens, r.Trace.Pages, r.Trace.PageTokens, r.Trace.DistinctPages, r.Workers)
	fmt.Fprintf(out, "costs: %s, prefill %.1f and decode %.1f tokens/s, fixed %.1f ms, load %.0f, restore %.0f, save %.0f MB/s\n\n",
		r.Costs.Name, r.Costs.Prefill, r.Costs.Decode, r.Costs.LookupMS, r.Costs.LoadMBs, r.Costs.RestoreMBs, r.Costs.SaveMBs)
	fmt.Fprintln(out, "request\ttokens\tpages\thits\tsimulated\tfrom\tsimulated\tTTFT\tsimulated\t")
	for i, q := range r.Requests {
		fmt.Fprintf(out, "%d\t%d\t%d\t%d\t%d\t%s\t%s\t%.0f ms\t%.0f ms\t\n", i+1, q.Tokens, q.Pages,
			q.Cluster.Hits, q.Simulated.Hits, q.Cluster.Source, q.Simulated.Source, q.Cluster.TTFT, q.Simulated.TTFT)
	}
	fmt.Fprintln(out, "\n\thits\tfrom the store\tTTFT p50\tp90\tmean\t")
	for _, side := range []struct {
		name string
		results.ReplaySide
	}{{"cluster", r.Cluster}, {"simulated", r.Simulated}} {
		fmt.Fprintf(out, "%s\t%d\t%d\t%.0f ms\t%.0f ms\t%.0f ms\t\n", side.name, side.Hits, side.StoreHits, side.TTFT.P50, side.TTFT.P90, side.TTFT.Mean)
	}
	fmt.Fprintf(out, "cluster over simulated\t%.3f\t\t%.3f\t%.3f\t%.3f\t\n\n", ratio(float64(r.Cluster.Hits), float64(r.Simulated.Hits)),
		ratio(r.Cluster.TTFT.P50, r.Simulated.TTFT.P50), ratio(r.Cluster.TTFT.P90, r.Simulated.TTFT.P90), ratio(r.Cluster.TTFT.Mean, r.Simulated.TTFT.Mean))
	for _, g := range r.Goals {
		reached := "reached"
		if !g.Reached {
			reached = "NOT reached"
		}
		fmt.Fprintf(out, "goal: %s at most %g %s: %.3g, %s\n", g.Name, g.Want, g.Unit, g.Measured, reached)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing what came of a replay: %w", err)
	}
	return nil
}

// ratio is 1 for two that are both 0.
func ratio(a, b float64) float64 {
	if a == b {
		return 1
	}
	return a / b
}
