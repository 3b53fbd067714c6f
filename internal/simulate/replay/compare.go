package replay

import (
	"math"
	"strconv"

	"ollamoon/internal/results"
	"ollamoon/internal/simulate"
	"ollamoon/internal/simulate/trace"
)

// store is the source of hits that come from the store.
const store = "store"

// compare puts both sides next to each other.
func (o Options) compare(c *cluster, pages *trace.Pages, simulated *simulate.Outcome, played []served) *results.Replay {
	f := simulate.Grid{Costs: simulated.Options.Costs, Saves: simulated.Options.Saves, WorkerCache: o.WorkerCache}.
		File(o.Trace, pages, nil, nil)
	f.Trace.Name = o.Name
	r := &results.Replay{
		SchemaVersion: 1, Kind: results.ReplayKind,
		Trace: f.Trace, Costs: f.Costs, Saves: f.Saves, WorkerCacheBytes: f.WorkerCacheBytes, Workers: len(c.workers),
	}
	var cluster, model []float64
	for i, s := range played {
		q, m := &pages.Prompts[i], simulated.Each[i]
		request := results.ReplayedRequest{
			Tokens: q.Input, Pages: pages.Usable(q),
			Cluster:   results.ReplayedAnswer{Worker: s.worker, Hits: s.cached / c.pageTokens, Source: s.source, TTFT: s.first.Seconds() * 1e3},
			Simulated: results.ReplayedAnswer{Worker: strconv.Itoa(m.Worker), Hits: m.Hits, Source: source(m), TTFT: m.TTFT * 1e3},
		}
		if request.Cluster.Hits == 0 {
			request.Cluster.Source = ""
		}
		r.Requests = append(r.Requests, request)
		cluster, model = append(cluster, request.Cluster.TTFT), append(model, request.Simulated.TTFT)
		r.Cluster.Add(request.Cluster, store)
		r.Simulated.Add(request.Simulated, store)
	}
	r.Cluster.TTFT, r.Simulated.TTFT = percentiles(cluster), percentiles(model)
	r.Goals = goals(r)
	return r
}

// source is where simulated hits are from, in a worker's words.
func source(s simulate.Served) string {
	switch {
	case s.Hits == 0:
		return ""
	case s.Own:
		return "own"
	}
	return store
}

func percentiles(times []float64) results.Percentiles {
	s := simulate.SpreadOf(times)
	return results.Percentiles{P50: s.P50, P90: s.P90, P99: s.P99, Mean: s.Mean, Max: s.Max}
}

// The simulator is to be as near as this: in the median, as a part.
const near = 0.25

// goals are what is wanted of the simulator.
func goals(r *results.Replay) []results.TTFTGoal {
	differ := 0
	for _, q := range r.Requests {
		if q.Cluster.Hits != q.Simulated.Hits {
			differ++
		}
	}
	off := math.Abs(r.Cluster.TTFT.P50/r.Simulated.TTFT.P50 - 1)
	return []results.TTFTGoal{
		{Name: "requests whose hits differ", Most: true, Measured: float64(differ), Unit: "requests", Reached: differ == 0},
		{Name: "median time to the first token, off by", Want: near, Most: true, Measured: off, Unit: "of the simulated", Reached: off <= near},
	}
}
