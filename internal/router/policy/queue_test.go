package policy

import (
	"math/rand/v2"
	"testing"
)

// In whatever order requests come and end, each one goes to a worker after at most
// MaxPassed later ones, no worker runs more than its slots, no slot stays free that
// the oldest could have, and the queue empties.
func TestNoneStarves(t *testing.T) {
	for _, p := range policies() {
		eachSeed(t, 30, func(t *testing.T, random *rand.Rand) {
			w := newWorld(p, 1+random.IntN(4), 1+random.IntN(3))
			var before [][]Key
			ended := func() {
				at := random.IntN(len(w.workers))
				if n := len(w.running[at]); n > 0 {
					w.end(at, random.IntN(n))
				}
			}
			served := 0
			check := func() {
				for _, r := range w.dispatch() {
					served++
					if r.Passed > MaxPassed {
						t.Fatalf("%s: request %d has been passed %d times", p.Name(), r.Number, r.Passed)
					}
				}
				for _, worker := range w.workers {
					if worker.Running > worker.Slots {
						t.Fatalf("%s: %d requests on %d slots", p.Name(), worker.Running, worker.Slots)
					}
				}
			}
			const requests = 80
			for range requests {
				var r Request
				r, before = anyRequest(random, before)
				w.queue = append(w.queue, w.number(r))
				check()
				if random.IntN(2) == 0 {
					ended()
					check()
				}
			}
			for step := 0; len(w.queue) > 0; step++ {
				if step > 100*requests {
					t.Fatalf("%s: %d requests wait for ever", p.Name(), len(w.queue))
				}
				ended()
				check()
			}
			if served != requests {
				t.Errorf("%s: %d of %d requests have been served", p.Name(), served, requests)
			}
		})
	}
}

func TestNextWaitsForAWorker(t *testing.T) {
	busy := Worker{ID: "busy", Slots: 1, Running: 1, Generate: 1, Cached: 10000, Home: true}
	long := Request{PromptTokens: 10000, OutputTokens: 1}
	one := func(r Request, workers ...Worker) (Placement, bool) {
		return Next(ours(), 1, func(int) Case { return Case{Request: r, Workers: workers} })
	}
	if p, ok := one(long, busy, Worker{ID: "free", Slots: 1}); ok {
		t.Error("it does not wait for the worker that would complete it first:", p)
	}
	long.Waited = DefaultCosts.Expect(busy, long).Wait
	if p, ok := one(long, busy, Worker{ID: "free", Slots: 1}); ok {
		t.Error("it does not wait as long as was expected:", p)
	}
	long.Waited++
	if p, ok := one(long, busy, Worker{ID: "free", Slots: 1}); !ok || p.Worker != 1 || p.Decision.Why != WhyWaited {
		t.Error("it waits longer than was expected:", p, ok)
	}
	long.Waited, long.Passed = 0, MaxPassed
	if p, ok := one(long, busy, Worker{ID: "free", Slots: 1}); !ok || p.Worker != 1 || p.Decision.Why != WhyWaited {
		t.Error("it still waits:", p, ok)
	}
	if p, ok := one(long, busy); ok {
		t.Error("it goes to a worker without a free slot:", p)
	}
	if _, ok := one(long); ok {
		t.Error("it goes to no worker")
	}
}
