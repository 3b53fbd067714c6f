package simulate

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"ollamoon/internal/results"
)

// Summarize writes what a person wants to know of results.
func Summarize(w io.Writer, f *results.Simulation) error {
	t := f.Trace
	ideal := 0.0
	if t.Pages > 0 {
		ideal = float64(t.IdealHits) / float64(t.Pages)
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%s: %d requests, %d pages of %d tokens, %d distinct; a store that never forgets hits %.3f\n",
		t.Name, t.Requests, t.Pages, t.PageTokens, t.DistinctPages, ideal)
	fmt.Fprintf(out, "costs: %s, %s of KV a token, %d slots a worker\n\n", f.Costs.Name, humanize.IBytes(uint64(f.Costs.KVTokenBytes)), f.Costs.Slots)
	fmt.Fprintln(out, "workers\tload\tpolicy\tstore\thit rate\tof ideal\tTTFT p50\tp90\tp99\timbalance\tbusy\tstore traffic\t")
	for _, r := range f.Runs {
		store, traffic := "", ""
		if r.StorePart > 0 {
			store = fmt.Sprintf("%g", r.StorePart)
			traffic = fmt.Sprintf("%.0f MB/s", r.TrafficMBs)
		}
		fmt.Fprintf(out, "%d\t%g\t%s\t%s\t%.3f\t%.3f\t%s\t%s\t%s\t%.2f\t%.2f\t%s\t\n", r.Workers, r.Load, r.Policy, store,
			r.HitRate, r.OfIdeal, inSeconds(r.TTFT.P50), inSeconds(r.TTFT.P90), inSeconds(r.TTFT.P99), r.Imbalance, r.Busy, traffic)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}

func inSeconds(ms float64) string {
	if ms < 10_000 {
		return fmt.Sprintf("%.2f s", ms/1000)
	}
	return fmt.Sprintf("%.0f s", ms/1000)
}
