package policy

import "time"

// A Worker is what is known of one worker when a request is to be placed.
type Worker struct {
	ID string
	// Slots is how many requests it runs at the same time; 0 is any number.
	Slots int
	// Running is how many requests have been given to it and are not over. They may
	// be more than its slots.
	Running int
	// Prefill is how many prompt tokens those have still to compute.
	Prefill int
	// Generate is how many tokens those are still expected to generate.
	Generate int

	// NoStore says that it cannot load what others have published.
	NoStore bool

	// Of the request at hand (see Places.Fill):

	// Cached is how many leading tokens of its prompt the worker holds itself.
	Cached int
	// Home says that its conversation was last served here.
	Home bool
	// Conversations is how many conversations were last served here.
	Conversations int
}

// Free reports whether a slot is free.
func (w Worker) Free() bool { return w.Slots == 0 || w.Running < w.Slots }

// outstanding is the work given to it, in tokens.
func (w Worker) outstanding() int { return w.Prefill + w.Generate }

// A Key names a prefix of a prompt: equal keys, equal prefixes.
type Key uint64

// A Request is what is known of a request that is to be placed.
type Request struct {
	// Number counts requests. It makes equals take turns.
	Number uint64
	// PromptTokens and OutputTokens are lengths, as expected.
	PromptTokens, OutputTokens int
	// Prefix has the keys of the prompt's leading blocks, of BlockTokens tokens each:
	// Prefix[i] names the first i+1. Prompts of other models or tenants have other
	// keys.
	Prefix      []Key
	BlockTokens int
	// Session names its conversation among all, if the client says so.
	Session string

	// Shared is how many leading tokens any worker can load from the store (see
	// Places.Fill).
	Shared int
	// Passed is how many later requests have been given to workers before it, Waited
	// for how long it has waited.
	Passed int
	Waited time.Duration
}

// A Policy chooses a worker.
type Policy interface {
	// Name is what a user calls it.
	Name() string
	// Choose returns the index of one of the workers, of which there is at least one.
	// Equal arguments give equal choices.
	Choose(workers []Worker, r Request) (int, Decision)
}

// A Decision says why a worker was chosen, and what is expected of it.
type Decision struct {
	Why      Why
	Expected Expectation // zero for policies that expect nothing
}

// A Why is the reason of a choice.
type Why string

// The reasons.
const (
	WhyOnly   Why = "only"   // there was no other
	WhyTurn   Why = "turn"   // it was its turn
	WhyLeast  Why = "least"  // it had the fewest tokens outstanding
	WhyTime   Why = "time"   // it was expected to complete the request first
	WhyEqual  Why = "equal"  // as good as the first to complete, and less used
	WhyHome   Why = "home"   // the conversation was last there, and that was cheap
	WhyCache  Why = "cache"  // it holds most of the prompt
	WhyWaited Why = "waited" // it had waited long enough, or been passed often enough; of those free, the best
)

// RoundRobin takes the workers in turn.
type RoundRobin struct{}

// Name implements Policy.
func (RoundRobin) Name() string { return "round-robin" }

// Choose implements Policy.
func (RoundRobin) Choose(workers []Worker, r Request) (int, Decision) {
	return int(r.Number % uint64(len(workers))), Decision{Why: WhyTurn} //nolint:gosec // below the number of workers
}

// LeastOutstanding takes the worker with the fewest tokens to compute and to
// generate.
type LeastOutstanding struct{}

// Name implements Policy.
func (LeastOutstanding) Name() string { return "least-outstanding" }

// Choose implements Policy.
func (LeastOutstanding) Choose(workers []Worker, r Request) (int, Decision) {
	return least(workers, r, func(a, b Worker) int { return a.outstanding() - b.outstanding() }), Decision{Why: WhyLeast}
}

// least returns the index of the least worker. Equals take turns.
func least(workers []Worker, r Request, compare func(a, b Worker) int) int {
	first := int(r.Number % uint64(len(workers))) //nolint:gosec // below the number of workers
	best := first
	for i := 1; i < len(workers); i++ {
		if at := (first + i) % len(workers); compare(workers[at], workers[best]) < 0 {
			best = at
		}
	}
	return best
}

// CacheAffinity takes the worker whose own cache holds most of the prompt, unless
// the workers are out of balance or nobody holds enough: then the one with the
// fewest tokens outstanding. It is what a router does without a store.
type CacheAffinity struct {
	// Least is the part of the prompt that a worker must hold.
	Least float64
	// Beyond and Times say when workers are out of balance: the most loaded has more
	// than Beyond requests more than the least loaded, and more than Times its
	// number.
	Beyond int
	Times  float64
}

// NewCacheAffinity returns CacheAffinity with usual limits.
func NewCacheAffinity() CacheAffinity { return CacheAffinity{Least: 0.3, Beyond: 8, Times: 1.5} }

// Name implements Policy.
func (CacheAffinity) Name() string { return "cache-affinity" }

// Choose implements Policy.
func (c CacheAffinity) Choose(workers []Worker, r Request) (int, Decision) {
	idle := least(workers, r, func(a, b Worker) int { return a.outstanding() - b.outstanding() })
	holder := least(workers, r, func(a, b Worker) int {
		if a.Cached != b.Cached {
			return b.Cached - a.Cached
		}
		return a.outstanding() - b.outstanding()
	})
	fewest, most := workers[0].Running, workers[0].Running
	for _, w := range workers {
		fewest, most = min(fewest, w.Running), max(most, w.Running)
	}
	unbalanced := most-fewest > c.Beyond && float64(most) > c.Times*float64(fewest)
	held := workers[holder].Cached
	if unbalanced || held == 0 || float64(held) < c.Least*float64(r.PromptTokens) {
		return idle, Decision{Why: WhyLeast}
	}
	return holder, Decision{Why: WhyCache}
}

// Costs are what work is expected to take on a worker.
type Costs struct {
	Prefill time.Duration // to compute a prompt's token
	Load    time.Duration // to load one from the store; 0: there is none
	Decode  time.Duration // to generate a token, alone
	// Beside is added to Decode for each request that generates at the same time.
	Beside time.Duration
}

// DefaultCosts are those of a small model on a processor. A router learns better
// ones; what matters is their relation.
var DefaultCosts = Costs{
	Prefill: time.Millisecond,
	Load:    50 * time.Microsecond,
	Decode:  20 * time.Millisecond,
	Beside:  5 * time.Millisecond,
}
