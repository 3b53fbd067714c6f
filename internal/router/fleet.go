package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"ollamoon/internal/router/policy"
)

// A fleet is the workers, and the queue in front of them.
type fleet struct {
	config Config
	costs  learned

	mu      sync.Mutex
	workers []*worker
	models  []string   // keys of all, in the order of the workers
	waiting []*pending // oldest first
	weighed int        // of these, by the present call of policy.Next
	again   *time.Timer
	places  *policy.Places
	policy  policy.Policy
	number  uint64
	closed  bool
	metrics *metrics
}

// A pending is a request that waits for a slot.
type pending struct {
	call   *call
	tried  map[*worker]bool
	since  time.Time
	passed int
	number uint64
	got    chan grant // has room for one
}

// A grant ends a wait.
type grant struct {
	lease *lease
	err   error
}

func newFleet(c Config, m *metrics) *fleet {
	f := &fleet{config: c, metrics: m, places: policy.NewPlaces(policy.DefaultLimits)}
	f.setPolicy()
	f.again = time.AfterFunc(time.Hour, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.dispatch()
	})
	f.again.Stop() // until dispatch says when
	return f
}

// setPolicy makes the policy anew with what has been learned.
func (f *fleet) setPolicy() {
	p, err := policy.ByName(f.config.Policy, f.costs.now())
	if err != nil {
		panic(err) // validated
	}
	f.policy = p
}

// able returns the workers that can serve a call. A model that nobody has is any
// worker's to refuse, but where llama-servers have several: they answer whatever
// name is asked for.
func (f *fleet) able(c *call, tried map[*worker]bool) []*worker {
	model := c.model
	if !slices.Contains(f.models, model) {
		model = ""
	}
	if model == "" && f.config.Surface == Llama && len(f.models) > 1 {
		if c.model != "" {
			return nil
		}
		model = f.models[0]
	}
	var able []*worker
	for _, w := range f.workers {
		if w.serves(model) && !tried[w] {
			able = append(able, w)
		}
	}
	return able
}

// errNoModel is wrapped when a model is asked for that no worker has.
var errNoModel = errors.New("no worker has the model")

// unable says why there is no worker for a call. The lock is held.
func (f *fleet) unable(c *call) error {
	if c.model != "" && f.config.Surface == Llama && len(f.models) > 1 && !slices.Contains(f.models, c.model) {
		return fmt.Errorf("%w %q; there are %q", errNoModel, c.model, f.models)
	}
	return errNoWorker
}

// acquire waits for a worker's slot, of those not tried yet. The caller ends the
// lease; cancel becomes its own.
func (f *fleet) acquire(ctx context.Context, cancel context.CancelCauseFunc, c *call, tried map[*worker]bool) (*lease, error) {
	p := &pending{call: c, tried: tried, since: time.Now(), got: make(chan grant, 1)}
	if err := f.enqueue(p); err != nil {
		return nil, err
	}
	timer := time.NewTimer(f.config.QueueWait)
	defer timer.Stop()
	var err error
	select {
	case g := <-p.got:
		return g.adopt(cancel)
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		err = errWaited
	}
	if f.leave(p) {
		return nil, err
	}
	g := <-p.got // it was granted meanwhile
	if g.lease != nil {
		g.lease.end()
	}
	return nil, err
}

// adopt makes a lease the caller's.
func (g grant) adopt(cancel context.CancelCauseFunc) (*lease, error) {
	if g.lease == nil {
		return nil, g.err
	}
	g.lease.fleet.mu.Lock()
	defer g.lease.fleet.mu.Unlock()
	g.lease.cancel = cancel
	if g.lease.worker.state == stateEjected {
		cancel(errEjected)
	}
	return g.lease, nil
}

func (f *fleet) enqueue(p *pending) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosing
	}
	if len(f.able(p.call, p.tried)) == 0 {
		return f.unable(p.call)
	}
	p.number = f.number
	f.number++
	f.waiting = append(f.waiting, p)
	f.dispatch()
	if n := len(f.waiting); n > f.config.Queue && f.waiting[n-1] == p {
		f.waiting = f.waiting[:n-1]
		return errBusy
	}
	return nil
}

// leave takes a request out of the queue, if it still waits.
func (f *fleet) leave(p *pending) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.waiting, p)
	if i < 0 {
		return false
	}
	f.waiting = slices.Delete(f.waiting, i, i+1)
	return true
}

// Bounds on what one call of dispatch takes, and on how long a request that has
// waited longer than was expected is not seen.
const (
	maxWeighed = 64
	againAfter = 50 * time.Millisecond
)

// dispatch gives what waits to workers that have free slots. The lock is held.
func (f *fleet) dispatch() {
	for len(f.waiting) > 0 {
		f.weighed = 0
		placed, ok := policy.Next(f.policy, len(f.waiting), f.weigh)
		if !ok {
			if f.weighed > 0 { // slots are free, and requests wait for others
				f.again.Reset(againAfter)
			}
			return
		}
		for _, before := range f.waiting[:placed.Request] {
			before.passed++
		}
		p := f.waiting[placed.Request]
		f.waiting = slices.Delete(f.waiting, placed.Request, placed.Request+1)
		p.got <- grant{lease: f.give(p, f.able(p.call, p.tried)[placed.Worker], placed.Decision)}
	}
}

// weigh is a waiting request with the workers that can serve it, of which none is
// named when none has a free slot.
func (f *fleet) weigh(i int) policy.Case {
	p := f.waiting[i]
	var views []policy.Worker
	free := false
	for _, w := range f.able(p.call, p.tried) {
		views = append(views, w.view(f.config.Slots))
		free = free || views[len(views)-1].Free()
	}
	if !free || f.weighed == maxWeighed {
		return policy.Case{}
	}
	f.weighed++
	r := f.expected(p)
	f.places.Fill(views, &r)
	return policy.Case{Request: r, Workers: views}
}

// expected is a request with the output that is expected of it.
func (f *fleet) expected(p *pending) policy.Request {
	r := p.call.request
	r.Number, r.Passed, r.Waited = p.number, p.passed, time.Since(p.since)
	r.OutputTokens = f.costs.output(r.OutputTokens)
	return r
}

// give gives a request to a worker.
func (f *fleet) give(p *pending, w *worker, d policy.Decision) *lease {
	r := f.expected(p)
	view := []policy.Worker{w.view(f.config.Slots)}
	f.places.Fill(view, &r)
	l := &lease{fleet: f, worker: w, slots: 1, began: time.Now(), generate: r.OutputTokens}
	l.prefill = f.costs.now().Compute(view[0], r)
	l.computes, l.learns = l.prefill, w.facts.status == nil
	w.leases[l] = struct{}{}
	w.running++
	w.prefill += l.prefill
	w.generate += l.generate
	f.places.Served(w.spec.ID, r)
	f.metrics.decisions.WithLabelValues(string(d.Why)).Inc()
	return l
}

// another reports whether a worker is left that could serve a call.
func (f *fleet) another(c *call, tried map[*worker]bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.closed && len(f.able(c, tried)) > 0
}

// pick returns the least used worker, for a request that needs no slot.
func (f *fleet) pick(cancel context.CancelCauseFunc, c *call, tried map[*worker]bool) (*lease, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	able := f.able(c, tried)
	if len(able) == 0 {
		return nil, f.unable(c)
	}
	w := slices.MinFunc(able, func(a, b *worker) int { return a.running - b.running })
	l := &lease{fleet: f, worker: w, cancel: cancel, began: time.Now()}
	w.leases[l] = struct{}{}
	return l, nil
}

// healthy returns the workers that are.
func (f *fleet) healthy() []*worker {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.workers), func(w *worker) bool { return w.state != stateHealthy })
}

// retryAfter is when a slot may be free for one more request.
func (f *fleet) retryAfter() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	slots, costs := 0, f.costs.now()
	for _, w := range f.workers {
		if w.state == stateHealthy {
			slots += w.view(f.config.Slots).Slots
		}
	}
	each := time.Duration(f.costs.output(0)) * costs.Decode
	return min(time.Minute, each*time.Duration(len(f.waiting)+1)/time.Duration(max(1, slots)))
}
