package policy

import (
	"math/rand/v2"
	"slices"
)

// A world is a router's view of workers on which requests begin and end, in an
// order that a test decides.
type world struct {
	policy  Policy
	costs   Costs
	places  *Places
	workers []Worker
	running [][]Request // by worker
	queue   []Request
	given   []int // by worker, ever
	next    uint64
}

func newWorld(p Policy, workers, slots int) *world {
	w := &world{policy: p, costs: DefaultCosts, places: NewPlaces(DefaultLimits)}
	w.running, w.given = make([][]Request, workers), make([]int, workers)
	for i := range workers {
		w.workers = append(w.workers, Worker{ID: string(rune('a' + i)), Slots: slots})
	}
	return w
}

// view is what is known for a request.
func (w *world) view(r Request) ([]Worker, Request) {
	workers := slices.Clone(w.workers)
	w.places.Fill(workers, &r)
	return workers, r
}

// number gives a request its number.
func (w *world) number(r Request) Request {
	r.Number = w.next
	w.next++
	return r
}

// give gives a request to a worker.
func (w *world) give(at int, r Request) {
	workers, r := w.view(r)
	worker := &w.workers[at]
	worker.Running++
	worker.Prefill += w.costs.Compute(workers[at], r)
	worker.Generate += r.OutputTokens
	w.running[at] = append(w.running[at], r)
	w.given[at]++
	w.places.Served(worker.ID, r)
}

// choose places a request at once, whether or not a slot is free.
func (w *world) choose(r Request) (int, Decision) {
	r = w.number(r)
	workers, seen := w.view(r)
	at, d := w.policy.Choose(workers, seen)
	w.give(at, r)
	return at, d
}

// end ends the i-th request of a worker.
func (w *world) end(at, i int) {
	r := w.running[at][i]
	w.running[at] = slices.Delete(w.running[at], i, i+1)
	worker := &w.workers[at]
	worker.Running--
	worker.Generate -= r.OutputTokens
	if worker.Running == 0 {
		worker.Prefill = 0
	} else {
		worker.Prefill = max(0, worker.Prefill-r.PromptTokens)
	}
}

// endAll ends all requests.
func (w *world) endAll() {
	for at := range w.running {
		for len(w.running[at]) > 0 {
			w.end(at, 0)
		}
	}
}

// dispatch gives what can go from the queue to workers, and returns it in order.
func (w *world) dispatch() []Request {
	var gone []Request
	for {
		p, ok := Next(w.policy, len(w.queue), func(i int) Case {
			workers, r := w.view(w.queue[i])
			return Case{Request: r, Workers: workers}
		})
		if !ok {
			return gone
		}
		for i := range p.Request {
			w.queue[i].Passed++
		}
		r := w.queue[p.Request]
		w.queue = slices.Delete(w.queue, p.Request, p.Request+1)
		w.give(p.Worker, r)
		gone = append(gone, r)
	}
}

const blockTokens = 256

// chain returns keys of blocks that begin with those of another chain.
func chain(random *rand.Rand, begin []Key, blocks int) []Key {
	keys := slices.Clone(begin)
	for range blocks {
		keys = append(keys, Key(random.Uint64()))
	}
	return keys
}

// request of whole blocks and a few tokens more.
func request(keys []Key, output int) Request {
	return Request{PromptTokens: len(keys)*blockTokens + 10, OutputTokens: output, Prefix: keys, BlockTokens: blockTokens}
}

// anyRequest is one of any size. Some begin like others, some continue others.
func anyRequest(random *rand.Rand, before [][]Key) (Request, [][]Key) {
	var begin []Key
	if len(before) > 0 && random.IntN(3) > 0 {
		begin = before[random.IntN(len(before))]
		begin = begin[:random.IntN(len(begin)+1)]
	}
	keys := chain(random, begin, random.IntN(40))
	return request(keys, random.IntN(500)), append(before, keys)
}
