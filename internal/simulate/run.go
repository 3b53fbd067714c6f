package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"ollamoon/internal/simulate/trace"
)

// An Outcome is what a run came to.
type Outcome struct {
	Options   Options
	Requests  int
	Pages     int // of all prompts
	Hits      int // of them not computed
	OwnHits   int // of those from the worker's own cache
	Ideal     int // hits of a store that never forgets
	TTFT      Spread
	Total     Spread  // time to the last token
	Seconds   float64 // from the first arrival to the last token
	Imbalance float64 // the busiest engine's time with prompts over the mean
	Busy      float64 // part of the time that engines had a prompt
	// Of the store, in bytes: the most it held, what it sent and got. Evicted is in
	// pages.
	StoreBytes, Loaded, Published float64
	Evicted                       int64
	// Each is what came of each request, in order, of a sequential run.
	Each []Served
}

// Served is what came of a request.
type Served struct {
	Worker    int
	Hits      int     // pages that were not computed
	Own       bool    // those are from the worker's own cache
	Published int     // pages that the store got
	TTFT      float64 // seconds
}

// A Spread describes times, in seconds.
type Spread struct{ P50, P90, P99, Mean, Max float64 }

// ErrOptions is wrapped by errors for options that cannot be.
var ErrOptions = errors.New("simulate: options that cannot be")

// Run simulates one cluster. tick, if not nil, is told at times how many requests
// have ended.
func Run(ctx context.Context, p *trace.Pages, o Options, tick func(ended int)) (*Outcome, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if tick == nil {
		tick = func(int) {}
	}
	if o.Saves == "" {
		o.Saves = o.Costs.saves()
	}
	all := requests(p, o.Seed, o.Load*float64(o.Workers)*o.Costs.Prefill)
	if o.Sequential {
		inTurn(all)
	}
	c := newCluster(p, o)
	if err := c.run(ctx, all, tick); err != nil {
		return nil, err
	}
	if c.ended != len(all) {
		return nil, fmt.Errorf("simulate: %d of %d requests ended", c.ended, len(all)) // a fault of the model
	}
	return c.outcome(all), nil
}

func (o Options) validate() error {
	if err := o.Costs.Validate(); err != nil {
		return err
	}
	if _, err := ParsePolicy(string(o.Policy)); err != nil {
		return err
	}
	switch o.Saves {
	case "", SaveSteps, SaveOnce, SaveAfter:
	default:
		return fmt.Errorf("%w: saves %q; there are %s, %s, %s", ErrOptions, o.Saves, SaveSteps, SaveOnce, SaveAfter)
	}
	if o.Workers <= 0 || !(o.Load >= 0) || o.WorkerCache < 0 || o.Store < 0 {
		return fmt.Errorf("%w: %d workers, load %g, caches of %d and %d pages", ErrOptions, o.Workers, o.Load, o.WorkerCache, o.Store)
	}
	return nil
}

func (c *cluster) outcome(all []*request) *Outcome {
	last := 0.0
	for _, r := range all {
		last = max(last, r.ended)
	}
	out := &Outcome{
		Options: c.options, Requests: len(all), Pages: c.pages.Total, Ideal: c.pages.Ideal(),
		Seconds: last - all[0].arrived,
		Loaded:  c.traffic.loaded, Published: c.traffic.published,
	}
	var first, total []float64
	for _, r := range all {
		out.Hits += r.reused
		if r.own {
			out.OwnHits += r.reused
		}
		if c.options.Sequential {
			out.Each = append(out.Each, Served{Worker: r.worker, Hits: r.reused, Own: r.own, Published: r.published, TTFT: r.first - r.arrived})
		}
		first = append(first, r.first-r.arrived)
		total = append(total, r.ended-r.arrived)
	}
	out.TTFT, out.Total = SpreadOf(first), SpreadOf(total)
	busiest, sum := 0.0, 0.0
	for _, w := range c.workers {
		busiest, sum = max(busiest, w.engine.busy), sum+w.engine.busy
	}
	mean := sum / float64(len(c.workers))
	out.Imbalance, out.Busy = busiest/mean, mean/out.Seconds
	if c.store != nil {
		out.StoreBytes = c.costs.bytes(c.pages.Tokens) * float64(len(c.store.at))
		out.Evicted = c.store.evicted
	}
	return out
}

// SpreadOf describes some times, which it sorts.
func SpreadOf(times []float64) Spread {
	slices.SortFunc(times, cmp.Compare[float64])
	at := func(part float64) float64 { return times[min(len(times)-1, int(part*float64(len(times))))] }
	sum := 0.0
	for _, t := range times {
		sum += t
	}
	return Spread{P50: at(0.5), P90: at(0.9), P99: at(0.99), Mean: sum / float64(len(times)), Max: times[len(times)-1]}
}
