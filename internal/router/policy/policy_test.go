package policy

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func policies() []Policy { return All(DefaultCosts) }

func ours() LeastTime { return NewLeastTime(DefaultCosts) }

// eachSeed runs a property on many random sequences.
func eachSeed(t *testing.T, n int, property func(t *testing.T, random *rand.Rand)) {
	t.Helper()
	for seed := range n {
		property(t, rand.New(rand.NewPCG(uint64(seed), 1)))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestExpect(t *testing.T) {
	c := Costs{Prefill: 10, Load: 1, Decode: 100, Beside: 20}
	r := Request{PromptTokens: 1000, OutputTokens: 5, Shared: 600}
	for _, test := range []struct {
		name string
		w    Worker
		r    Request
		want Expectation
	}{
		{"idle", Worker{}, r, Expectation{Load: 600, Compute: 4000, Generate: 500}},
		{"without a store", Worker{NoStore: true}, r, Expectation{Compute: 10000, Generate: 500}},
		{"holds some", Worker{Cached: 500}, r, Expectation{Load: 100, Compute: 4000, Generate: 500}},
		{"holds more than the store", Worker{Cached: 800}, r, Expectation{Compute: 2000, Generate: 500}},
		{"holds all: one token is computed", Worker{Cached: 1000}, r, Expectation{Compute: 10, Generate: 500}},
		{"prompts ahead", Worker{Cached: 1000, Prefill: 30}, r, Expectation{Wait: 300, Compute: 10, Generate: 500}},
		{"beside others", Worker{Cached: 1000, Running: 2}, r, Expectation{Compute: 10, Generate: 700}},
		{
			"no slot is free: of two that each have 10 tokens left, one ends",
			Worker{Cached: 1000, Running: 2, Slots: 2, Generate: 20},
			r,
			Expectation{Wait: 600, Compute: 10, Generate: 600},
		},
		{"no prompt", Worker{Cached: 8}, Request{}, Expectation{}},
	} {
		if got := c.Expect(test.w, test.r); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
	slow := Costs{Prefill: 10, Load: 10}
	if got := slow.Expect(Worker{}, r); got.Load != 0 || got.Compute != 10000 {
		t.Errorf("a store that is no quicker than computing is asked: %+v", got)
	}
}

func TestChoicesAreValidAndRepeatable(t *testing.T) {
	for _, p := range policies() {
		eachSeed(t, 40, func(t *testing.T, random *rand.Rand) {
			w := newWorld(p, 1+random.IntN(6), random.IntN(4))
			var before [][]Key
			for range 60 {
				var r Request
				r, before = anyRequest(random, before)
				workers, seen := w.view(r)
				kept := slices.Clone(workers)
				one, why := p.Choose(workers, seen)
				two, whyToo := p.Choose(workers, seen)
				if one != two || why != whyToo || why.Why == "" {
					t.Fatalf("%s: %d %v, then %d %v", p.Name(), one, why, two, whyToo)
				}
				if one < 0 || one >= len(workers) || !slices.Equal(kept, workers) {
					t.Fatalf("%s: %d of %d workers", p.Name(), one, len(workers))
				}
				at, _ := w.choose(r)
				if random.IntN(2) == 0 {
					w.end(at, random.IntN(len(w.running[at])))
				}
			}
		})
	}
}

// However requests come and end, affinity delays none by more than a part of what
// it takes alone, and puts none behind a queue longer than the shortest one by
// more than its own work and that part.
func TestImbalanceIsBounded(t *testing.T) {
	p := ours()
	eachSeed(t, 100, func(t *testing.T, random *rand.Rand) {
		w := newWorld(p, 2+random.IntN(6), random.IntN(5))
		var before [][]Key
		for range 80 {
			var r Request
			r, before = anyRequest(random, before)
			workers, seen := w.view(r)
			at, d := p.Choose(workers, seen)
			slack := time.Duration(p.Home * float64(p.Costs.Alone(seen)))
			for i := range workers {
				e := p.Costs.Expect(workers[i], seen)
				if d.Expected.Total() > e.Total()+slack {
					t.Fatalf("worker %d is expected after %v, worker %d after %v, the slack is %v", at, d.Expected.Total(), i, e.Total(), slack)
				}
				if own := e.Total() - e.Wait; d.Expected.Wait > e.Wait+own+slack {
					t.Fatalf("worker %d's queue is %v, worker %d's is %v, the request's own work %v", at, d.Expected.Wait, i, e.Wait, own)
				}
			}
			w.choose(r)
			for random.IntN(3) == 0 {
				at := random.IntN(len(workers))
				if n := len(w.running[at]); n > 0 {
					w.end(at, random.IntN(n))
				}
			}
		}
	})
}

// Requests that all begin with the same long prompt, or that all belong to one
// session, and come at once, do not gather at one worker.
func TestABurstIsSpread(t *testing.T) {
	for _, session := range []string{"", "one"} {
		random := rand.New(rand.NewPCG(1, 1))
		w := newWorld(ours(), 4, 4)
		system := chain(random, nil, 8)
		first := request(system, 100)
		first.Session = session
		w.choose(first)
		w.endAll()
		for range 40 {
			r := request(chain(random, system, 1), 100)
			r.Session = session
			w.choose(r)
		}
		fewest, most := slices.Min(w.given), slices.Max(w.given)
		if fewest < 7 || most > 14 {
			t.Errorf("session %q: 40 requests at once on 4 workers: %v", session, w.given)
		}
	}
}

// New conversations that share a system prompt, one at a time, are spread: each
// worker has slots for only a few.
func TestConversationsAreSpread(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	w := newWorld(ours(), 4, 4)
	system := chain(random, nil, 2)
	for range 40 {
		w.choose(request(chain(random, system, 4), 100))
		w.endAll()
	}
	if fewest, most := slices.Min(w.given), slices.Max(w.given); fewest < 9 || most > 11 {
		t.Errorf("40 conversations in turn on 4 workers: %v", w.given)
	}
}

// A conversation stays with its worker while others come and go, and leaves it
// only when staying would cost more than a part of what the turn takes alone.
func TestAConversationKeepsItsWorkerWhileThatIsCheap(t *testing.T) {
	p := ours()
	for _, named := range []bool{false, true} {
		eachSeed(t, 50, func(t *testing.T, random *rand.Rand) {
			w := newWorld(p, 4, 4)
			keys := chain(random, nil, 4)
			home, moves := -1, 0
			for turn := range 20 {
				for range random.IntN(3) {
					w.choose(request(chain(random, nil, random.IntN(4)), 50))
				}
				r := request(keys, 100)
				if named {
					r.Session = "conversation"
				}
				workers, seen := w.view(w.number(r))
				best := time.Duration(1 << 62)
				for _, worker := range workers {
					best = min(best, p.Costs.Expect(worker, seen).Total())
				}
				at, _ := w.choose(r)
				if turn > 0 && at != home {
					moves++
					slack := time.Duration(p.Home * float64(p.Costs.Alone(seen)))
					if stay := p.Costs.Expect(workers[home], seen).Total(); stay <= best+slack {
						t.Fatalf("turn %d goes from worker %d to %d, though staying costs %v and the best is %v", turn, home, at, stay, best)
					}
				}
				home = at
				w.endAll()
				keys = chain(random, keys, 1+random.IntN(2))
			}
			if moves > 2 {
				t.Errorf("it moved %d times in 20 turns at little load", moves)
			}
		})
	}
}

// Work is not left to a few: under load every worker is used, by every policy.
func TestEveryWorkerIsUsed(t *testing.T) {
	for _, p := range policies() {
		eachSeed(t, 20, func(t *testing.T, random *rand.Rand) {
			w := newWorld(p, 5, 2)
			var before [][]Key
			for range 60 {
				var r Request
				r, before = anyRequest(random, before)
				w.choose(r)
			}
			if slices.Min(w.given) == 0 {
				t.Errorf("%s: %v", p.Name(), w.given)
			}
		})
	}
}

func TestCacheAffinity(t *testing.T) {
	c := NewCacheAffinity()
	r := Request{PromptTokens: 1000, OutputTokens: 10}
	workers := []Worker{{Cached: 200}, {Cached: 600, Running: 8, Generate: 80}, {}}
	if at, d := c.Choose(workers, r); at != 1 || d.Why != WhyCache {
		t.Error("the holder is not chosen:", at, d)
	}
	workers[1].Running = 9
	if at, d := c.Choose(workers, r); at == 1 || d.Why != WhyLeast {
		t.Error("nine requests more are no imbalance:", at, d)
	}
	if at, d := c.Choose(workers[:1], r); at != 0 || d.Why != WhyLeast {
		t.Error("a fifth of the prompt is enough:", at, d)
	}
}

func TestByName(t *testing.T) {
	for _, p := range policies() {
		if got, err := ByName(p.Name(), DefaultCosts); err != nil || got != p {
			t.Errorf("%s: %v, %v", p.Name(), got, err)
		}
	}
	if _, err := ByName("best", DefaultCosts); !errors.Is(err, ErrName) {
		t.Error(err)
	}
}
