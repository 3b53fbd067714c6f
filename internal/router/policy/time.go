package policy

import "time"

// An Expectation is how long a request is expected to take on a worker.
type Expectation struct {
	Wait     time.Duration // for a slot, and for prompts ahead
	Load     time.Duration // of pages
	Compute  time.Duration // of the rest of the prompt
	Generate time.Duration
}

// FirstToken is when the first token is expected.
func (e Expectation) FirstToken() time.Duration { return e.Wait + e.Load + e.Compute }

// Total is when the last token is expected.
func (e Expectation) Total() time.Duration { return e.FirstToken() + e.Generate }

// Expect returns what is expected of a worker.
func (c Costs) Expect(w Worker, r Request) Expectation {
	cached, load := c.reuse(w, r)
	return Expectation{
		Wait:     times(w.Prefill, c.Prefill) + c.slotWait(w),
		Load:     times(load, c.Load),
		Compute:  times(r.PromptTokens-cached-load, c.Prefill),
		Generate: times(r.OutputTokens, c.step(w, w.Running)),
	}
}

// Compute returns how many tokens of a prompt a worker has to compute: what its
// Prefill grows by when it is given the request.
func (c Costs) Compute(w Worker, r Request) int {
	cached, load := c.reuse(w, r)
	return r.PromptTokens - cached - load
}

// reuse returns how many tokens of a prompt are held and how many are loaded.
// Nothing is loaded that is quicker to compute, and the last token is always
// computed.
func (c Costs) reuse(w Worker, r Request) (held, loaded int) {
	most := max(0, r.PromptTokens-1)
	held = min(w.Cached, most)
	if !w.NoStore && c.Load > 0 && c.Load < c.Prefill {
		loaded = max(0, min(r.Shared, most)-held)
	}
	return held, loaded
}

// Alone is what a request takes on an idle worker that holds and loads nothing.
func (c Costs) Alone(r Request) time.Duration {
	r.Shared = 0
	return c.Expect(Worker{}, r).Total()
}

// slotWait is the wait for a slot: each request ahead beyond the free slots ends
// when it has generated what is expected of one, and so many slots work on them.
func (c Costs) slotWait(w Worker) time.Duration {
	if w.Free() {
		return 0
	}
	ahead := w.Running - w.Slots + 1
	mean := times(w.Generate, c.step(w, w.Slots-1)) / time.Duration(w.Running)
	return time.Duration(ahead) * mean / time.Duration(w.Slots)
}

// step is the time of one token beside others.
func (c Costs) step(w Worker, others int) time.Duration {
	if w.Slots > 0 {
		others = min(others, w.Slots-1)
	}
	return c.Decode + times(others, c.Beside)
}

func times(n int, d time.Duration) time.Duration { return time.Duration(max(0, n)) * d }

// LeastTime takes the worker that is expected to complete the request first, with
// two exceptions. The request's home is taken when it is later by no more than
// Home times what the request takes alone. Otherwise, of those later by no more
// than Equal times that, the least used is taken, so that new conversations that
// begin alike do not gather at one worker.
type LeastTime struct {
	Costs Costs
	Home  float64
	Equal float64
}

// NewLeastTime returns LeastTime with usual limits.
func NewLeastTime(c Costs) LeastTime { return LeastTime{Costs: c, Home: 0.25, Equal: 0.05} }

// Name implements Policy.
func (LeastTime) Name() string { return "least-time" }

// Choose implements Policy.
func (p LeastTime) Choose(workers []Worker, r Request) (int, Decision) {
	expected := make([]Expectation, len(workers))
	first := 0
	for i, w := range workers {
		expected[i] = p.Costs.Expect(w, r)
		if expected[i].Total() < expected[first].Total() {
			first = i
		}
	}
	if len(workers) == 1 {
		return 0, Decision{Why: WhyOnly, Expected: expected[0]}
	}
	alone := float64(p.Costs.Alone(r))
	within := func(i int, part float64) bool {
		return expected[i].Total() <= expected[first].Total()+time.Duration(part*alone)
	}
	for i, w := range workers {
		if w.Home && within(i, p.Home) {
			return i, Decision{Why: WhyHome, Expected: expected[i]}
		}
	}
	var equals []int
	for i := range workers {
		if within(i, p.Equal) {
			equals = append(equals, i)
		}
	}
	chosen := leastUsed(workers, equals, r)
	if expected[chosen].Total() == expected[first].Total() && len(equals) == 1 {
		return chosen, Decision{Why: WhyTime, Expected: expected[chosen]}
	}
	return chosen, Decision{Why: WhyEqual, Expected: expected[chosen]}
}

// leastUsed returns which of some workers has the fewest requests, then the fewest
// conversations.
func leastUsed(workers []Worker, some []int, r Request) int {
	picked := make([]Worker, len(some))
	for i, at := range some {
		picked[i] = workers[at]
	}
	return some[least(picked, r, func(a, b Worker) int {
		if a.Running != b.Running {
			return a.Running - b.Running
		}
		return a.Conversations - b.Conversations
	})]
}
