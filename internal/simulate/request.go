package simulate

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"ollamoon/internal/router/policy"
	"ollamoon/internal/simulate/trace"
)

// A request on its way through the cluster.
type request struct {
	number int
	prompt *trace.Prompt
	asked  policy.Request // what the router knows

	arrived float64 // seconds, as all times here
	first   float64 // when its first token was there; 0 before
	ended   float64 // when its last token was there

	worker  int
	prefill int  // tokens that the router counts for it, until the first token
	reused  int  // pages, of the worker's own or loaded
	loaded  int  // pages, from the store
	own     bool // it is the worker's own that is reused

	published int // pages that the store did not have

	continues *request   // what it comes after
	next      []*request // what waits for its end
	over      bool
}

// requests returns what arrives, in order.
func requests(p *trace.Pages, seed uint64, rate float64) []*request {
	times := spread(p.Prompts, seed)
	if last := times[len(times)-1]; last > 0 && rate > 0 {
		scale := float64(p.Input) / rate / last
		for i := range times {
			times[i] *= scale
		}
	}
	all := make([]*request, len(p.Prompts))
	for i := range p.Prompts {
		q := &p.Prompts[i]
		all[i] = &request{number: i, prompt: q, arrived: times[i], asked: policy.Request{
			Number: uint64(i), PromptTokens: q.Input, Prefix: keys(p, q), BlockTokens: p.Tokens,
		}}
	}
	follow(p, all)
	return all
}

// inTurn has each request follow the one before, and the first come at once.
func inTurn(all []*request) {
	for i, r := range all {
		r.arrived, r.continues = 0, nil
		if i > 0 {
			r.continues = all[i-1]
		}
	}
}

// keys are what a router takes from a prompt: its whole pages.
func keys(p *trace.Pages, q *trace.Prompt) []policy.Key {
	pages := whole(p, q)
	all := make([]policy.Key, len(pages))
	for i, page := range pages {
		all[i] = policy.Key(page) //nolint:gosec // counts from 0
	}
	return all
}

// spread returns times in seconds on the trace's clock. Requests of one tick are
// spread until the next tick that has any, the last ones as long as those before.
func spread(prompts []trace.Prompt, seed uint64) []float64 {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a simulation's
	times := make([]float64, len(prompts))
	width := 0.0
	for i := 0; i < len(prompts); {
		end := i + 1
		for end < len(prompts) && prompts[end].TimeMS == prompts[i].TimeMS {
			end++
		}
		if end < len(prompts) {
			width = float64(prompts[end].TimeMS-prompts[i].TimeMS) / 1000
		}
		for j := i; j < end; j++ {
			times[j] = float64(prompts[j].TimeMS) / 1000
			if end-i > 1 {
				times[j] += width * random.Float64()
			}
		}
		slices.SortFunc(times[i:end], cmp.Compare[float64])
		i = end
	}
	return times
}
