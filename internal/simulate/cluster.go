package simulate

import (
	"context"
	"fmt"
	"math"

	"ollamoon/internal/router/policy"
	"ollamoon/internal/simulate/trace"
)

// Saves says when workers save what they publish of a prompt. The engine does
// nothing else meanwhile.
type Saves string

// When workers save.
const (
	SaveSteps Saves = "steps" // while they compute it, in steps that double
	SaveOnce  Saves = "once"  // when it is computed, before the first token
	SaveAfter Saves = "after" // when it is answered, before the slot is free
)

// Options of one run.
type Options struct {
	Policy  Policy
	Workers int
	Load    float64 // see the package; 0: the trace's own clock
	Seed    uint64
	// WorkerCache and Store are sizes in pages: of each worker's own cache, and of the
	// store where the policy has one. Unlimited is any.
	WorkerCache, Store int
	Costs              Costs
	Saves              Saves
	// Sequential has each request come when the one before is over and its pages are in
	// the store, at any Load.
	Sequential bool
}

// Unlimited is the size of a cache that forgets nothing.
const Unlimited = math.MaxInt

// A cluster is the state of a run.
type cluster struct {
	options Options
	costs   Costs
	pages   *trace.Pages
	policy  policy.Policy
	places  *policy.Places
	router  policy.Costs // as the policy has them
	store   *cache       // nil without one
	workers []*worker
	view    []policy.Worker // of the router
	free    int             // slots of all workers
	queue   []*request      // at the router, oldest first
	events  events
	now     float64
	ended   int
	outputs int // tokens of those that have ended
	traffic traffic
}

// A worker of the cluster.
type worker struct {
	engine   engine
	cache    *cache
	version  uint64
	down, up float64 // when its link from the store and to it is free
}

// traffic is what went over the workers' links, in bytes.
type traffic struct{ loaded, published float64 }

// newCluster returns one in which nothing has happened.
func newCluster(p *trace.Pages, o Options) *cluster {
	c := &cluster{options: o, costs: o.Costs.complete(), pages: p, free: o.Workers * o.Costs.Slots}
	c.router = c.costs.forRouter(o.Policy.shared())
	c.policy = o.Policy.router(c.router)
	limits := policy.Limits{Blocks: o.WorkerCache, Conversations: conversations}
	if o.Policy.shared() {
		c.store = newCache(o.Store)
		limits.Store = o.Store
	}
	c.places = policy.NewPlaces(limits)
	for i := range o.Workers {
		c.workers = append(c.workers, &worker{engine: engine{costs: &c.costs}, cache: newCache(o.WorkerCache)})
		c.view = append(c.view, policy.Worker{ID: fmt.Sprint(i), Slots: c.costs.Slots})
	}
	return c
}

// looked is how many of the queue the router tries to place at a time.
const looked = 64

// conversations is of how many the router knows the home.
const conversations = 16 << 10

// run lets everything happen. tick is told how many requests have ended.
func (c *cluster) run(ctx context.Context, all []*request, tick func(ended int)) error {
	for _, r := range all {
		c.events.add(event{at: r.arrived, kind: arrives, request: r})
	}
	for n := 0; ; n++ {
		e, ok := c.events.take()
		if !ok {
			return nil
		}
		c.now = e.at
		switch e.kind {
		case arrives:
			c.arrive(e.request)
		case isLoaded:
			c.compute(e.request)
		case engineDue:
			c.due(e.worker, e.version)
		case published:
			c.store.put(e.request.prompt.Pages[e.pages[0]:e.pages[1]])
		}
		if n%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("simulating: %w", err)
			}
			tick(c.ended)
		}
	}
}

// arrive: a request is at the router, unless what it continues has not ended.
func (c *cluster) arrive(r *request) {
	if before := r.continues; before != nil && !before.over {
		before.next = append(before.next, r)
		return
	}
	r.arrived = c.now
	c.queue = append(c.queue, r)
	c.dispatch()
}

// dispatch gives what can go from the router's queue to workers.
func (c *cluster) dispatch() {
	for c.free > 0 {
		p, ok := policy.Next(c.policy, min(len(c.queue), looked), c.at)
		if !ok {
			return
		}
		for _, r := range c.queue[:p.Request] {
			r.asked.Passed++
		}
		r := c.queue[p.Request]
		c.queue = append(c.queue[:p.Request], c.queue[p.Request+1:]...)
		c.give(r, p.Worker)
	}
}

// at is the i-th case of the queue.
func (c *cluster) at(i int) policy.Case {
	r := c.queue[i].asked
	r.OutputTokens = c.expected()
	if c.options.Policy.looks() {
		c.places.Fill(c.view, &r)
	}
	return policy.Case{Request: r, Workers: c.view}
}

// expected is how many tokens a router expects of an answer: what they had on
// average.
func (c *cluster) expected() int {
	const before = 256 // any has ended
	if c.ended == 0 {
		return before
	}
	return c.outputs / c.ended
}

// give gives a request to a worker, which has a free slot.
func (c *cluster) give(r *request, at int) {
	w, seen := c.workers[at], &c.view[at]
	r.worker = at
	r.asked.OutputTokens = c.expected()
	known := r.asked
	if c.options.Policy.looks() {
		c.places.Fill(c.view, &known)
		c.places.Served(seen.ID, known)
	}
	r.prefill = c.router.Compute(*seen, known)
	seen.Running++
	seen.Prefill += r.prefill
	seen.Generate += r.asked.OutputTokens
	c.free--
	c.events.add(event{at: c.load(r, w), kind: isLoaded, request: r})
}

// end: a request's last token is there.
func (c *cluster) end(r *request) {
	r.ended = c.now
	if c.store != nil && c.options.Saves == SaveAfter && c.saveAfter(r) {
		return
	}
	c.leave(r)
}

// leave frees a request's slot. What continues it may come.
func (c *cluster) leave(r *request) {
	r.over = true
	at := c.now
	if c.options.Sequential {
		at = max(at, c.workers[r.worker].up)
	}
	for _, n := range r.next {
		c.events.add(event{at: at, kind: arrives, request: n})
	}
	seen := &c.view[r.worker]
	seen.Running--
	seen.Generate -= r.asked.OutputTokens
	c.free++
	c.ended++
	c.outputs += r.prompt.Output
}
