package simulate

import (
	"cmp"
	"time"

	"ollamoon/internal/results"
	"ollamoon/internal/simulate/trace"
)

// File returns the results of a grid's runs. What names the run itself is left to
// the caller.
func (g Grid) File(t *trace.Trace, p *trace.Pages, cells []Cell, outcomes []*Outcome) *results.Simulation {
	first, last := t.Requests[0].TimeMS, t.Requests[len(t.Requests)-1].TimeMS
	f := &results.Simulation{
		SchemaVersion: 1, Kind: results.SimulationKind,
		Trace: results.SimulatedTrace{
			Requests: len(p.Prompts), Seconds: (time.Duration(last-first) * time.Millisecond).Seconds(),
			InputTokens: p.Input, OutputTokens: p.Output, BlockTokens: t.BlockTokens, PageTokens: p.Tokens,
			Pages: p.Total, DistinctPages: p.Distinct, IdealHits: p.Ideal(),
		},
		Costs: g.Costs.file(), Seed: g.Seed,
		WorkerCacheBytes: g.WorkerCache, EqualMemory: g.EqualMemory, Saves: string(cmp.Or(g.Saves, g.Costs.saves())),
	}
	for i, o := range outcomes {
		f.Runs = append(f.Runs, o.file(cells[i], p))
	}
	return f
}

func (c Costs) file() results.SimulatedCosts {
	c = c.complete()
	return results.SimulatedCosts{
		Name: c.Name, Prefill: c.Prefill, Decode: c.Decode, BesideMS: c.Beside * 1e3, BatchTokens: c.Batch, Slots: c.Slots,
		KVTokenBytes: c.KVBytes, LoadMBs: c.Load / 1e6, PublishMBs: c.Publish / 1e6, LookupMS: c.Lookup * 1e3,
		RestoreMBs: c.Restore / 1e6, SaveMBs: c.Save / 1e6, Sources: c.Sources,
	}
}

func (o *Outcome) file(c Cell, p *trace.Pages) results.SimulatedRun {
	r := results.SimulatedRun{
		Policy: string(o.Options.Policy), Workers: o.Options.Workers, Load: o.Options.Load, StorePart: c.Store,
		Hits: o.Hits, OwnHits: o.OwnHits,
		TTFT: results.Percentiles{
			P50: o.TTFT.P50 * 1e3, P90: o.TTFT.P90 * 1e3, P99: o.TTFT.P99 * 1e3, Mean: o.TTFT.Mean * 1e3, Max: o.TTFT.Max * 1e3,
		},
		TotalMS: o.Total.Mean * 1e3, Seconds: o.Seconds, Imbalance: o.Imbalance, Busy: o.Busy,
		UsedBytes: int64(o.StoreBytes), LoadedBytes: int64(o.Loaded), PublishedBytes: int64(o.Published),
		TrafficMBs: (o.Loaded + o.Published) / o.Seconds / 1e6, EvictedPages: o.Evicted,
	}
	if o.Options.Policy.shared() {
		r.StoreBytes = int64(o.Options.Costs.KVBytes * float64(p.Tokens) * float64(o.Options.Store))
	}
	if o.Pages > 0 {
		r.HitRate = float64(o.Hits) / float64(o.Pages)
	}
	if o.Ideal > 0 {
		r.OfIdeal = float64(o.Hits) / float64(o.Ideal)
	}
	return r
}
