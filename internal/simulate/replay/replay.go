package replay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"

	"ollamoon/internal/results"
	"ollamoon/internal/simulate"
	"ollamoon/internal/simulate/trace"
)

// ErrOptions is wrapped by errors for options that cannot be.
var ErrOptions = errors.New("replay: options that cannot be")

// Options say what to play.
type Options struct {
	URL    string       // of the cluster's router
	Client *http.Client // nil: one of its own
	Trace  *trace.Trace // whose blocks are whole pages
	Name   string       // of the trace
	// Costs are those of the simulation; nil: measured.
	Costs *simulate.Costs
	// WorkerCache is the size of each worker's own cache in the simulation, in bytes.
	WorkerCache int64
	// Stage is told of a part of the run that has a number of steps; step is called
	// after each, end at its end. nil: nobody is told.
	Stage func(name string, steps int) (step, end func())
}

// Run plays a trace to a cluster and to a simulated one. What names the run itself
// is left to the caller.
func Run(ctx context.Context, o Options) (*results.Replay, error) {
	if o.Client == nil {
		transport := &http.Transport{} // no proxy
		defer transport.CloseIdleConnections()
		o.Client = &http.Client{Transport: transport}
	}
	if o.Stage == nil {
		o.Stage = func(string, int) (step, end func()) { return func() {}, func() {} }
	}
	c, err := look(ctx, o.Client, o.URL)
	if err != nil {
		return nil, err
	}
	pages, err := o.Trace.Cut(c.pageTokens)
	if err != nil {
		return nil, fmt.Errorf("%w: workers have pages of %d tokens: %w", ErrOptions, c.pageTokens, err)
	}
	run := rand.Uint64() //nolint:gosec // no secret: other runs have other prompts
	costs, err := o.costs(ctx, c, pages, ^run)
	if err != nil {
		return nil, err
	}
	simulated, err := simulate.Run(ctx, pages, simulate.Options{
		Policy: simulate.Shared, Workers: len(c.workers), Costs: costs, Store: simulate.Unlimited, Sequential: true,
		WorkerCache: int(float64(o.WorkerCache) / costs.KVBytes / float64(pages.Tokens)),
	}, nil)
	if err != nil {
		return nil, err
	}
	played, err := o.play(ctx, c, run, simulated)
	if err != nil {
		return nil, err
	}
	return o.compare(c, pages, simulated, played), nil
}

// costs are what work takes.
func (o Options) costs(ctx context.Context, c *cluster, pages *trace.Pages, run uint64) (simulate.Costs, error) {
	if o.Costs != nil {
		costs := *o.Costs
		costs.Slots = c.slots
		return costs, nil
	}
	var lengths []int
	for _, q := range pages.Prompts {
		lengths = append(lengths, q.Input)
	}
	slices.Sort(lengths)
	step, end := o.Stage("measuring costs", c.probes())
	defer end()
	return c.measure(ctx, run, lengths[len(lengths)/2], step)
}

// A served request is what came of it.
type served struct {
	answer
	worker string // empty: it was not seen
}

// play sends all requests, each when the one before is answered and what is to be
// published of it is there.
func (o Options) play(ctx context.Context, c *cluster, run uint64, expected *simulate.Outcome) ([]served, error) {
	step, end := o.Stage("playing requests", len(o.Trace.Requests))
	defer end()
	p := prompts{run: run, blockTokens: o.Trace.BlockTokens}
	had, err := c.published(ctx)
	if err != nil {
		return nil, err
	}
	var all []served
	for i, q := range o.Trace.Requests {
		var s served
		s.answer, err = c.ask(ctx, c.url, p.of(q), q.Output, func() { s.worker = c.serving(ctx) })
		if err != nil {
			return nil, fmt.Errorf("request %d: %w", i+1, err)
		}
		// If fewer are published than in the simulation, the next wait is for the
		// next one's only.
		if had, err = c.await(ctx, had+int64(expected.Each[i].Published)); err != nil {
			return nil, err
		}
		all = append(all, s)
		step()
	}
	return all, nil
}
